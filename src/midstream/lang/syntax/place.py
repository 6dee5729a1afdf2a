"""Places in a query text: where a token or a tree node stands, for errors that point."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp

from midstream.model.errors import PlanError, SqlError


def place_of(text: str, offset: int) -> tuple[int, int]:
    r"""Turn an offset into line and column, counted from 1.

    >>> place_of("SELECT\n  x", 9)
    (2, 3)
    """
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def error_at(message: str, text: str, offset: int | None) -> SqlError:
    """Make an error that names a place in the text; a query that was not written has none."""
    return SqlError(message) if offset is None or not text else SqlError(message, *place_of(text, offset))


@contextmanager
def errors_at(text: str, place: exp.Expr | int | None) -> Iterator[None]:
    """Give a place in the text, or that of a node, to errors inside; if it has none, that is left to those around."""
    try:
        yield
    except PlanError as error:
        offset = offset_of(place) if isinstance(place, exp.Expr) else place
        if offset is None:
            raise
        raise error_at(str(error), text, offset) from None


def offset_of(node: exp.Expr | None) -> int | None:
    """Return where a tree node starts, as far as its tokens are known."""
    found = range_of(node) if node is not None else None
    return found[0] if found else None


def range_of(node: exp.Expr) -> tuple[int, int] | None:
    """Return where a tree node starts and ends, as far as its tokens are known."""
    metas = [n.meta for n in node.walk() if n.meta.get("start") is not None]
    return (min(m["start"] for m in metas), max(m["end"] for m in metas)) if metas else None
