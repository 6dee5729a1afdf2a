"""The disk of this machine: what is made outlasts a power cut, with all that is above it."""

from pathlib import Path

import pytest

from midstream.local.disk import Disk


@pytest.mark.parametrize("private", [False, True])
def test_every_folder_that_is_made_is_synced_where_its_name_is(
    private: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, synced = Disk(private=private), set[Path]()
    monkeypatch.setattr(disk, "sync", synced.add)
    disk.make_folder(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()
    assert synced >= {tmp_path, tmp_path / "a", tmp_path / "a" / "b"}
