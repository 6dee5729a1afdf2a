"""The log of Spark: what the JVM and its workers print, in a file instead of between the lines of the terminal.

When the file has grown long it becomes `spark.old.log`, in place of the one before.
"""

import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from midstream.local.disk import THIS_MACHINE
from midstream.local.files import private_file
from midstream.model.secrets import mask_bytes

NOISE = b"Streaming TransformWithStateInPandas Python worker"
"""The workers say this several times in every micro-batch."""
MOST_BYTES = 8 << 20
"""When the file is longer, another one is begun."""


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
        with open(self._out, "rb") as lines:
            for line in without_noise(lines):
                try:
                    self._write(mask_bytes(line))
                except OSError:
                    continue  # a full disk: whoever prints must not wait, and later lines may find room

    def _write(self, line: bytes) -> None:
        """Append a line, to another file when this one is long."""
        with open(self.file, "ab", buffering=0, opener=private_file) as log:
            if log.tell() <= MOST_BYTES:
                log.write(line)
                return
        os.replace(self.file, self.file.with_name(f"{self.file.stem}.old{self.file.suffix}"))
        self._write(line)


def without_noise(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Leave out what says nothing; it comes with an empty line after it."""
    quiet = False
    for line in lines:
        if NOISE in line or (quiet and not line.strip()):
            quiet = True
            continue
        quiet = False
        yield line
