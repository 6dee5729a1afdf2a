"""Secrets of a pipeline are on no command line, in no status, event or log; settings get to the JVM all the same."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from midstream.live.checkpoint import Checkpoint

pytestmark = pytest.mark.spark

COMMAND = str(Path(sys.executable).with_name("midstream"))
SECRET = "swordfish-74f1"
PIPELINE = """
sql = "SELECT value FROM a [RANGE 1 SECOND]"
checkpoint = "cp"
[streams.a]
format = "rate"
time = "timestamp"
options = { rowsPerSecond = 50, password = "${PIPELINE_PASSWORD}" }
[sink]
format = "folder"
path = "out"
[spark]
spark.some.password = "${PIPELINE_PASSWORD}"
spark.driver.extraJavaOptions = "-Dmidstream.seen=yes"
spark.driver.memory = "1g"
[run]
buckets = 1
cores = 1
"""


def command_lines(first: int) -> list[str]:
    """Return the command lines of a process and of all below it."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, todo = [], [first]
    while todo:
        pid = todo.pop()
        todo += [child for child, parent in parents.items() if parent == pid]
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def test_nobody_else_sees_the_secrets_of_a_pipeline(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(PIPELINE)
    held = Checkpoint(tmp_path / "cp")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    known = {**os.environ, "PIPELINE_PASSWORD": SECRET, "TMPDIR": str(temporary), "HOME": "/proc/nonexistent"}
    run = [COMMAND, "run", str(tmp_path / "p.toml")]
    with subprocess.Popen(run, env=known, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        seen: set[str] = set()
        while process.poll() is None and (held.read_status().get("last_batch") or {}).get("batch", 0) < 2:
            seen.update(command_lines(process.pid))
            time.sleep(0.2)
        assert process.poll() is None, process.stdout.read()
        seen.update(command_lines(process.pid))
        assert not list(temporary.glob("midstream-submit-*")), "the settings were removed"
        private = temporary / f"midstream-{os.geteuid()}"
        assert list((private / "spark").glob("blockmgr-*/*/shuffle_*")), "rows on their way between workers"
        assert {folder.stat().st_mode & 0o777 for folder in (private, private / "spark")} == {0o700}
        subprocess.run([COMMAND, "stop", str(held.folder)], check=True, capture_output=True)
        said = process.stdout.read()
    assert any("pyspark.daemon" in line for line in seen)
    java = [line for line in seen if "SparkSubmit" in line]
    assert all("--properties-file" in line for line in java)
    assert any("-Dmidstream.seen=yes" in line and "-Xmx1g" in line for line in java), "settings count before the start"
    assert not [line for line in seen if SECRET in line]
    assert SECRET not in said
    ours = [file for file in held.folder.iterdir() if file.is_file()]
    assert {"status.json", "events.jsonl", "spark.log"} <= {file.name for file in ours}
    assert not [file for file in held.folder.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()]
    assert {file.stat().st_mode & 0o777 for file in ours} == {0o600}


def test_who_says_where_rows_lie_on_their_way_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from midstream.spark.settings import DEFAULTS, LOCAL_DIR, defaults

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    place = tmp_path / f"midstream-{os.geteuid()}" / "spark"
    assert defaults() == {**DEFAULTS, LOCAL_DIR: str(place)}
    assert {folder.stat().st_mode & 0o777 for folder in (place, place.parent)} == {0o700}
    (tmp_path / "spark-defaults.conf").write_text("spark.local.dir /mnt/large\n")
    assert defaults() == DEFAULTS
