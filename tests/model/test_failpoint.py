"""Failpoints end or halt processes, at the pass that is asked for, once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import midstream.model.failpoint as failpoint

PASSES = """
from midstream.model.failpoint import reach
for k in range(4):
    reach("one")
    print("one", k, flush=True)
    reach("two")
    print("two", k, flush=True)
"""


def run(points: str, notes: Path | None = None) -> tuple[int, list[str]]:
    variables = {**os.environ, failpoint.VARIABLE: points, failpoint.NOTES: str(notes or "")}
    done = subprocess.run([sys.executable, "-c", PASSES], env=variables, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.split("\n")[:-1]


def test_a_point_kills_at_its_pass() -> None:
    assert run("two:2") == (-signal.SIGKILL, ["one 0", "two 0", "one 1"])
    assert run("one") == (-signal.SIGKILL, [])
    assert run("three, one:5") == (0, [f"{name} {k}" for k in range(4) for name in ("one", "two")])


def test_what_is_noted_does_not_kill_again(tmp_path: Path) -> None:
    lasted = []
    while True:
        code, lines = run("two:2,one:2,one:3", tmp_path / "notes")
        lasted.append(len(lines))
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert sorted(f.name for f in (tmp_path / "notes").iterdir()) == ["one:2", "one:3", "two:2"]
    assert lasted == [2, 3, 4, 8]


def test_a_point_halts_until_somebody_lets_it_go_on() -> None:
    variables = {**os.environ, failpoint.VARIABLE: "two:3=stop"}
    process = subprocess.Popen([sys.executable, "-c", PASSES], env=variables, stdout=subprocess.PIPE, text=True)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    os.kill(process.pid, signal.SIGCONT)
    out, _ = process.communicate()
    assert (process.returncode, len(out.split("\n"))) == (0, 9)


def test_a_point_ends_another_process_of_the_session(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.symlink_to(sys.executable)
    other = f"import subprocess; p = subprocess.Popen([{str(java)!r}, '-c', 'import time; time.sleep(60)'])"
    script = f"{other}\n{PASSES}\nprint(p.wait())"
    for action in ("kill jvm", "kill jvm after 1"):
        variables = {**os.environ, failpoint.VARIABLE: f"one:2={action}", failpoint.NOTES: str(tmp_path / action)}
        command = [sys.executable, "-c", script]
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, check=True, start_new_session=True
        )
        assert done.stdout.split("\n")[-2] == str(-signal.SIGKILL)
        assert [f.name for f in (tmp_path / action).iterdir()] == [f"one:2={action}"]


def test_a_point_whose_victim_is_not_there_does_nothing(tmp_path: Path) -> None:
    variables = {**os.environ, failpoint.VARIABLE: "one=kill daemon", failpoint.NOTES: str(tmp_path / "notes")}
    command = [sys.executable, "-c", PASSES]
    subprocess.run(command, env=variables, capture_output=True, check=True, start_new_session=True)
    assert not (tmp_path / "notes").exists()


def test_an_action_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="'wound' is neither kill nor stop"):
        failpoint.parse("one=wound")
