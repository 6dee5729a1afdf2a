"""A checkpoint that was moved is named, with the place it was moved from: Spark's own files in it name that."""

import json
import shutil
from pathlib import Path

import pytest

from midstream.live.checkpoint import Checkpoint
from midstream.model.errors import MidstreamError


def test_a_checkpoint_that_was_moved_is_named(tmp_path: Path) -> None:
    was, now = tmp_path / "was", tmp_path / "now"
    Checkpoint(was).check_place()
    Checkpoint(was).identify_adopted("shop", ["orders"])
    Checkpoint(was).check_place()
    was.rename(now)
    with pytest.raises(
        MidstreamError, match=f"checkpoint {now} was moved: Spark's own files in it name {was}; move it"
    ):
        Checkpoint(now).check_place()
    now.rename(was)
    Checkpoint(was).check_place()


def test_other_names_of_its_place_and_what_older_releases_wrote_are_no_moves(tmp_path: Path) -> None:
    place = tmp_path / "place"
    Checkpoint(place).identify_adopted("shop", ["orders"])
    (tmp_path / "link").symlink_to(place)
    Checkpoint(tmp_path / "link").check_place()
    file = place / "midstream.json"
    known = json.loads(file.read_text())
    del known["place"]
    file.write_text(json.dumps(known))
    shutil.move(place, tmp_path / "other")
    Checkpoint(tmp_path / "other").check_place()
