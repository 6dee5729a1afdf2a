"""Processes that end at failpoints: start one again and again until it has come to its end."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from midstream.model.failpoint import NOTES, VARIABLE

LIMIT_S = 300


def run_with_kills(script: Path, folder: Path, *arguments: str, points: str) -> list[str]:
    """Run a script to its end, started anew whenever its driver was killed at one of some points.

    Return where processes were killed, the driver's and its workers': every point kills once. What is left of a driver
    when it is dead, its JVM and workers, is killed at once, as if the machine had gone.
    """
    variables = {**os.environ, VARIABLE: points, NOTES: str(folder / "kills")}
    for _ in range(len(points.split(",")) + 1):
        with open(folder / "log", "ab") as log:
            command = [sys.executable, str(script), str(folder), *arguments]
            process = subprocess.Popen(command, stdout=log, stderr=log, env=variables, start_new_session=True)
        try:
            code = process.wait(LIMIT_S)
        finally:
            end_group(process)
        if code == 0:
            return sorted(note.name for note in (folder / "kills").iterdir())
        assert code == -signal.SIGKILL, (folder / "log").read_text()[-3000:]
    raise AssertionError("it was killed more often than there are points")


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill the driver, its JVM and its workers: all of the session that was started here."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
