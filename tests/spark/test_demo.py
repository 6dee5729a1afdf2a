"""`midstream demo` as people run it, for a few seconds: a process that shows what it does and then checks itself."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COMMAND = Path(sys.executable).with_name("midstream")


def test_a_short_demo_equals_recomputing(tmp_path: Path) -> None:
    command = [COMMAND, "demo", "--seconds", "6", "--rate", "100", "--keep", tmp_path / "kept"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "equal to recomputing from scratch" in done.stdout.splitlines()[-1]
