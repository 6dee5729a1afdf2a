"""The seeds of a run: what takes turns, and what never misses one."""

import pytest

import seeds
from seeds import PARTS, some, turn


def drawn(part: str, monkeypatch: pytest.MonkeyPatch, **asked: object) -> dict[int, bool]:
    """Return the seeds of a run, and whether they are slow."""
    monkeypatch.setenv(seeds.VARIABLE, part)
    seeds.chosen.cache_clear()
    found = seeds.seeds(100, 30, **asked)
    seeds.chosen.cache_clear()
    return {p if isinstance(p, int) else p.values[0]: not isinstance(p, int) for p in found}


@pytest.mark.parametrize("count", [0, 1, 3, 4, 59, 60])
def test_parts_together_are_all_seeds_each_once(count: int) -> None:
    parts = [turn(range(count), part) for part in range(PARTS)]
    assert [n for part in parts for n in part] == list(range(count)) == turn(range(count), None)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_every_item_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    found: set[str] = set()
    for part in range(PARTS):
        monkeypatch.setattr(seeds, "chosen", lambda part=part: part)
        assert len(set(some("abcdefgh", 2))) == 2
        found |= {*some("abcdefgh", 2)}
    monkeypatch.setattr(seeds, "chosen", lambda: None)
    assert found == {*some("abcdefgh", 2)} == {*"abcdefgh"}


def test_quick_and_kept_seeds_run_in_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [drawn(str(part), monkeypatch, quick=2, kept=(101, 129, 7)) for part in range(PARTS)]
    for found in runs:
        assert {n for n, slow in found.items() if not slow} == {100, 101}
        assert {7, 129} < {n for n, slow in found.items() if slow}
        assert len(found) < 30 // PARTS + 6
    whole = {n for found in runs for n in found}
    assert whole == {7, *range(100, 130)} == {*drawn("all", monkeypatch, quick=2, kept=(101, 129, 7))}
    assert drawn(str(PARTS + 1), monkeypatch, quick=2, kept=(101, 129, 7)) == runs[1], "the parts take turns"
