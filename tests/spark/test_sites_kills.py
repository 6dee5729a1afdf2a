"""A part of the kill campaign for joins over sites: one life at every run, another one at the next commit."""

from pathlib import Path

import pytest
from spark.sites_kills import LIVES, live

from seeds import some

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("name", some(list(LIVES), 1))
def test_kills_change_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tests = Path(__file__).parent.parent
    monkeypatch.setenv("PYTHONPATH", f"{tests}:{tests.parent / 'src'}:{tests.parent}")
    assert live(LIVES[name], tmp_path) == []
