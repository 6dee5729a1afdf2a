"""What tests of the command line share: a good scenario to be spoiled."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from app.spoiled_folder import Folder, table


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
