"""The log of Spark: what the JVM and its workers print, in a file instead of between the lines of the terminal."""

import os
import threading
from pathlib import Path

from midstream.local.disk import THIS_MACHINE
from midstream.local.files import private_file
from midstream.model.secrets import mask_bytes

NOISE = b"Streaming TransformWithStateInPandas Python worker"
"""The workers say this several times in every micro-batch."""


class SparkLog:
    """A pipe to give to a process as its output, and a thread that copies it into a file."""

    def __init__(self, file: Path) -> None:
        THIS_MACHINE.files.make_folder(file.parent)
        self.file = file
        self._out, self.into = os.pipe()
        threading.Thread(target=self._copy, name="midstream-spark-log", daemon=True).start()

    def close(self) -> None:
        """Close this process's end once others hold the pipe."""
        os.close(self.into)

    def _copy(self) -> None:
        quiet = False
        with open(self._out, "rb") as lines, open(self.file, "ab", buffering=0, opener=private_file) as log:
            for line in lines:
                # The noise comes with an empty line after it.
                if NOISE in line or (quiet and not line.strip()):
                    quiet = True
                    continue
                quiet = False
                log.write(mask_bytes(line))
