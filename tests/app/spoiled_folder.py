"""A scenario and its streams in a folder of their own, to be spoiled; what the command line then says and leaves.

Every case runs the real command line in this process: exit code 2, one sentence, nothing written, an output file of an
earlier run survives.
"""

import json
import sys
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from midstream.app.cli import main

ROWS = 1000
EARLIER = b"the output of an earlier run"
JOIN = "SELECT a.k, b.v FROM a [RANGE 10 SECONDS] a, b [RANGE 10 SECONDS] b WHERE a.k = b.k"


def table(**extra: object) -> pa.Table:
    columns = {
        "ts": [i * 1000 for i in range(ROWS)],
        "k": [i % 7 for i in range(ROWS)],
        "v": [i / 4 for i in range(ROWS)],
        "name": [f"n{i % 3}" for i in range(ROWS)],
        "day": pa.array([i % 5 for i in range(ROWS)], pa.date32()),
        "price": pa.array([Decimal(i) / 4 for i in range(ROWS)], pa.decimal128(10, 2)),
        "tags": [[i] for i in range(ROWS)],
        "place": [{"x": i} for i in range(ROWS)],
    }
    return pa.table(columns | extra)


@dataclass
class Folder:
    """A scenario and its streams on disk, ready to be spoiled."""

    path: Path
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    streams: dict[str, str] = field(default_factory=lambda: {"a": "a.parquet", "b": "b.parquet"})
    times: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, content: "str | bytes | pa.Table") -> None:
        if isinstance(content, pa.Table):
            pq.write_table(content, self.path / name)
        else:
            (self.path / name).write_bytes(content.encode() if isinstance(content, str) else content)

    def scenario(self, sql: str = JOIN, run: str = "", head: str | None = None) -> None:
        lines = [f"sql = {json.dumps(sql)}" if head is None else head]
        for name, path in self.streams.items():
            lines += [f"[streams.{name}]", f"path = {json.dumps(path)}", f'time = "{self.times.get(name, "ts")}"']
        self.write("scenario.toml", "\n".join([*lines, "[run]", run]) + "\n")

    def fails(self, *argv: str, leaving: bytes = EARLIER) -> str:
        """Run the command line; return its one sentence after checking that nothing else happened."""
        (self.path / "out.parquet").write_bytes(leaving)
        before = self.snapshot()
        code, out, err = self.run(*argv)
        assert code == 2, (code, out, err)
        assert out == ""
        assert err.startswith("midstream: ")
        assert err.endswith("\n")
        assert err.count("\n") == 1, err
        assert "Traceback" not in err
        assert self.snapshot() == before
        return err.removeprefix("midstream: ").rstrip("\n")

    def replay_fails(self, *argv: str) -> str:
        return self.fails("replay", "scenario.toml", "--out", "out.parquet", "--report", "report.json",
                          "--late", "late.parquet", *argv)  # fmt: skip

    def run(self, *argv: str) -> tuple[int, str, str]:
        self.monkeypatch.chdir(self.path)
        self.monkeypatch.setattr(sys, "argv", ["midstream", *argv])
        code = 0
        try:
            main()
        except SystemExit as left:
            code = int(left.code or 0)
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def snapshot(self) -> dict[str, bytes | None]:
        files = self.path.rglob("*")
        return {str(f.relative_to(self.path)): f.read_bytes() if f.is_file() else None for f in files}
