"""Failpoints end the process that passes them, at the pass that is asked for, once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

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
