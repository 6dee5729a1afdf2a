"""The log of Spark: what the JVM and its workers print, in a file instead of between the lines of the terminal."""

import os
import threading
from pathlib import Path

NOISE = b"Streaming TransformWithStateInPandas Python worker"
"""The workers say this several times in every micro-batch."""


class SparkLog:
    """A pipe to give to a process as its output, and a thread that copies it into a file."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.file = file
        self._out, self.into = os.pipe()
        threading.Thread(target=self._copy, name="midstream-spark-log", daemon=True).start()

    def close(self) -> None:
        """Close this process's end once others hold the pipe."""
        os.close(self.into)

    def _copy(self) -> None:
        quiet = False
        with open(self._out, "rb") as lines, open(self.file, "ab", buffering=0) as log:
            for line in lines:
                # The noise comes with an empty line after it.
                if NOISE in line or (quiet and not line.strip()):
                    quiet = True
                    continue
                quiet = False
                log.write(line)
