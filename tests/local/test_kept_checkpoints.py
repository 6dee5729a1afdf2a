"""A checkpoint in process that an earlier release has written goes on, and gives what it would have given then."""

from pathlib import Path

import pytest
from fixtures.kept_checkpoints import go_on_in_process, kept, unpack


@pytest.mark.parametrize("file", kept("in-process"), ids=lambda file: file.name)
def test_a_checkpoint_of_an_earlier_release_goes_on(file: Path, tmp_path: Path) -> None:
    expected = unpack(file, tmp_path)
    assert expected["rows"]
    assert go_on_in_process(tmp_path) == expected


def test_there_is_one() -> None:
    assert kept("in-process")
    assert kept("spark")
    assert sum(file.stat().st_size for host in ("in-process", "spark") for file in kept(host)) < 300_000
