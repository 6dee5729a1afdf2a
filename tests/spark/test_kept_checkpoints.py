"""A live checkpoint that an earlier release has written, with Spark's own state in it, goes on."""

from pathlib import Path

import pytest
from fixtures.kept_checkpoints import go_on_spark, kept, unpack

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("file", kept("spark"), ids=lambda file: file.name)
def test_a_checkpoint_of_an_earlier_release_goes_on(file: Path, tmp_path: Path, spark) -> None:
    expected = unpack(file, tmp_path)
    assert expected["rows"]
    assert go_on_spark(tmp_path, spark) == expected
