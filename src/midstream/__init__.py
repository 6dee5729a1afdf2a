"""Midstream: continuous queries whose plan and meaning can be changed while they run.

Names are imported when they are first used: every worker of Spark imports this package, and few need the language.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midstream.app.engine import Engine, read
    from midstream.lang.builder import col, fn, lit, not_exists, stream, when
    from midstream.model.errors import MidstreamError

__all__ = ["Engine", "MidstreamError", "col", "fn", "lit", "not_exists", "read", "stream", "when"]

_HOMES = {"Engine": "app.engine", "MidstreamError": "model.errors", "read": "app.engine"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'lang.builder')}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
