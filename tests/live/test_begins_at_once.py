"""Two processes that begin at once: the first one counts, the other one finds what it has written."""

from pathlib import Path

import pytest

import midstream as ms
from midstream.live.checkpoint import Checkpoint
from midstream.live.result_folder import ResultFolder
from midstream.live.sink import Owner
from midstream.local.disk import THIS_MACHINE
from midstream.model.errors import SinkError


class BeginsLater(Checkpoint):
    """A process that has looked before the other one wrote."""

    looked = False

    def known(self) -> object:
        if self.looked:
            return super().known()
        self.looked = True
        return None


def test_a_checkpoint_has_one_identity(tmp_path: Path) -> None:
    engine = ms.Engine()
    engine.stream("s", {"ts": [1], "v": [2]}, time="ts")
    plan = engine.query("SELECT v FROM s [ROWS 1]").plan
    first = Checkpoint(tmp_path).identify("one", plan, 1, (0,), ())
    second = BeginsLater(tmp_path).identify("one", plan, 1, (0,), ())
    assert first == second == Checkpoint(tmp_path).known()


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    assert THIS_MACHINE.add(tmp_path / "file", b"one")
    assert not THIS_MACHINE.add(tmp_path / "file", b"two")
    assert (tmp_path / "file").read_bytes() == b"one"
    assert THIS_MACHINE.files.names(tmp_path) == ["file"]
    folder = tmp_path / "results"
    ResultFolder(folder).begin(Owner("1", "one", tmp_path, False))
    with pytest.raises(SinkError, match="has results of query 'one'"):
        ResultFolder(folder).begin(Owner("2", "two", tmp_path, True))
