"""What tests of the command line share: a good scenario to be spoiled."""

import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from app.pretended import tell
from app.spoiled_folder import Folder, table

from midstream.app.cli import main
from midstream.live.checkpoint import Checkpoint


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The bytes of the streams every case starts with."""
    folder = tmp_path_factory.mktemp("recorded")
    pq.write_table(table(), folder / "a.parquet")
    return {"a.parquet": (folder / "a.parquet").read_bytes(), "b.parquet": (folder / "a.parquet").read_bytes()}


@pytest.fixture
def folder(
    tmp_path: Path, recorded: dict[str, bytes], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Folder:
    made = Folder(tmp_path, capsys, monkeypatch)
    for name, content in recorded.items():
        made.write(name, content)
    made.scenario()
    return made


@pytest.fixture
def midstream(capsys, monkeypatch):
    """Run the command line; return exit code, stdout, stderr."""

    def run(*argv: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["midstream", *map(str, argv)])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """The checkpoint of a query that this process pretends to run."""
    held = Checkpoint(tmp_path / "cp")
    held.folder.mkdir()
    held.hold()
    (held.folder / "midstream.json").write_text('{"format": 1, "id": "0badcafe"}')
    tell(held, "running")
    held.events.add({"event": "started", "plan": "(a b)", "buckets": 2})
    return held
