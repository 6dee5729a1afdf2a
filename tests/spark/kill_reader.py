"""A reader of results while they are written: `python kill_reader.py`, told what to do line by line.

    in:   read FOLDER | report            out: one line of JSON for each report

It looks at a folder again and again: what it has seen must stay as it was, and be there once. It goes into the
report, so that whoever started it can compare it with what is there at the end.
"""

import hashlib
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

import midstream as ms
from midstream.live.reading import parts

PAUSE_S = 0.15
HOP = b"midstream.hop"


def digest(table: pa.Table) -> str:
    """Return what tells tables apart that have other rows or another order."""
    held = pa.BufferOutputStream()
    with pa.ipc.new_stream(held, table.schema.remove_metadata()) as stream:
        stream.write_table(table.replace_schema_metadata().combine_chunks())
    return hashlib.sha1(held.getvalue()).hexdigest()


class Reader:
    """Looks at one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.looks = 0
        self.found: list[str] = []
        self.seen: dict[str, str] = {}
        """What each file of results had."""
        self.stats: dict[str, tuple[int, int, int]] = {}
        self.answers: list[tuple[int, str]] = []
        """Hops of the answers seen, each with the rows."""
        self.whole: pa.Table | None = None

    def look(self) -> None:
        if not self.folder.is_dir():
            return
        self.looks += 1
        files = [f for f in self.folder.iterdir() if f.name.startswith("batch-") and f.suffix == ".arrow"]
        if files:
            self._look_at(sorted(files))
            return
        self._look_at(parts(self.folder))
        for name in ("answer.parquet", "table.parquet"):
            if (self.folder / name).exists():
                table = pq.ParquetFile(self.folder / name).read()
                hop = int(table.schema.metadata[HOP])
                if self.answers and hop < self.answers[-1][0]:
                    self.found.append(f"{name} went back from hop {self.answers[-1][0]} to {hop}")
                seen = (hop, digest(table))
                if self.answers and self.answers[-1][0] == hop and self.answers[-1] != seen:
                    self.found.append(f"{name} changed within hop {hop}")
                if not self.answers or self.answers[-1] != seen:
                    self.answers.append(seen)
        if self.looks % 4 == 0 and self.seen:
            self._read_whole()

    def _look_at(self, files: list[Path]) -> None:
        names = [file.name for file in files]
        gone = [name for name in self.seen if name not in names]
        if gone:
            self.found.append(f"vanished: {gone}")
        last = max(self.seen, default="")
        for file in files:
            stat = file.stat()
            shape = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            if self.stats.get(file.name) != shape or self.looks % 8 == 0:
                table = feather.read_table(file) if file.suffix == ".arrow" else pq.ParquetFile(file).read()
                now = digest(table)
                if self.seen.setdefault(file.name, now) != now:
                    self.found.append(f"{file.name} has other rows than before")
                if file.name not in self.stats and file.name < last and file.suffix == ".parquet":
                    self.found.append(f"{file.name} appeared after {last}")
                self.stats[file.name] = shape

    def _read_whole(self) -> None:
        """Read as users do: what was there stays in front."""
        now = ms.read(self.folder)
        before, self.whole = self.whole, now
        if before is None or before.schema != now.schema:
            return
        if not now.slice(0, before.num_rows).equals(before):
            self.found.append(f"{before.num_rows} rows that were read are not in front of {now.num_rows} any more")

    def report(self) -> dict[str, Any]:
        return {"looks": self.looks, "found": self.found[:20], "seen": self.seen, "answers": self.answers}


def main() -> None:
    reader: list[Reader | None] = [None]
    lock = threading.Lock()

    def look() -> None:
        while True:
            with lock:
                if reader[0] is not None:
                    try:
                        reader[0].look()
                    except Exception as error:
                        reader[0].found.append(f"{type(error).__name__}: {error}")
            time.sleep(PAUSE_S)

    threading.Thread(target=look, daemon=True).start()
    for line in sys.stdin:
        word, _, folder = line.strip().partition(" ")
        with lock:
            if word == "read":
                reader[0] = Reader(Path(folder))
            elif reader[0] is not None:
                reader[0].look()
                print(json.dumps(reader[0].report()), flush=True)
                reader[0] = None


if __name__ == "__main__":
    main()
