"""Memory is kept between hops, unless somebody has decided otherwise."""

import ctypes

import pytest

from midstream.operators.source.memory import SETTINGS, keep_freed_memory


def test_memory_is_kept_where_the_library_can(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    keep_freed_memory.cache_clear()
    assert keep_freed_memory() == hasattr(ctypes.CDLL(None), "mallopt")


@pytest.mark.parametrize("name", SETTINGS)
def test_who_has_set_the_library_has_decided(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    keep_freed_memory.cache_clear()
    assert not keep_freed_memory()
    keep_freed_memory.cache_clear()
