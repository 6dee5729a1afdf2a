"""`midstream demo` as people run it, for a few seconds: a process that shows what it does and then checks itself."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COMMAND = Path(sys.executable).with_name("midstream")


def test_a_short_demo_equals_recomputing_and_decides(tmp_path: Path) -> None:
    command = [COMMAND, "demo", "--seconds", "20", "--keep", tmp_path / "kept"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "equal to recomputing from scratch" in done.stdout.splitlines()[-1]
    lines = done.stdout.splitlines()
    decided = [line for line in lines if line.startswith("decided: (((o p) s) r) -> ")]
    assert decided, done.stdout
    assert sum(line.startswith("batch ") for line in lines[lines.index(decided[0]) :]), "said when it is made"
    status = subprocess.run([COMMAND, "status", tmp_path / "kept" / "checkpoint"], capture_output=True, text=True)
    assert "(((o p) s) r) -> " in status.stdout
