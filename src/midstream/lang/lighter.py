"""A lighter query from the text of another one: shorter windows, or hops that are farther apart."""

from collections.abc import Iterator
from itertools import pairwise

from sqlglot import Token, TokenType

from midstream.lang.syntax.dialect import Midstream
from midstream.model.errors import SqlError
from midstream.model.time import format_duration, parse_duration

Span = tuple[int, int]
"""Where something stands in a text: the place of its first character, and that after its last one."""


def with_windows(text: str, width_us: int) -> str:
    """Return a query whose windows of time are no longer than a duration.

    >>> with_windows("SELECT a.k FROM a [RANGE 1 MINUTE SLIDE 5 SECONDS], b [RANGE 2 SECONDS]", 10_000_000)
    'SELECT a.k FROM a [RANGE 10 SECONDS SLIDE 5 SECONDS], b [RANGE 2 SECONDS]'
    """
    longer = [span for span in _widths(text) if parse_duration(text[slice(*span)]) > width_us]
    if not longer:
        raise SqlError(f"no window of the query is longer than {format_duration(width_us)}")
    return _replaced(text, longer, format_duration(width_us))


def with_hop(text: str, hop_us: int) -> str:
    """Return a hopping query with another, longer hop.

    >>> with_hop("SELECT k FROM a [RANGE 1 MINUTE] HOP BY 5 SECONDS EMIT DELTA", 20_000_000)
    'SELECT k FROM a [RANGE 1 MINUTE] HOP BY 20 SECONDS EMIT DELTA'
    """
    tokens = _tokens(text)
    for place, (first, second) in enumerate(pairwise(tokens)):
        if (first.text.upper(), second.text.upper()) == ("HOP", "BY") and place + 3 < len(tokens):
            span = tokens[place + 2].start, tokens[place + 3].end + 1
            if tokens[place + 3].text.upper() in ("ROW", "ROWS"):
                break
            if parse_duration(text[slice(*span)]) >= hop_us:
                raise SqlError(f"the query hops by {text[slice(*span)]}; {format_duration(hop_us)} are no longer hop")
            return _replaced(text, [span], format_duration(hop_us))
    raise SqlError("the query has no hop of time that could be longer")


def _widths(text: str) -> Iterator[Span]:
    """Yield where the widths of windows of time stand."""
    tokens = _tokens(text)
    for place, token in enumerate(tokens[:-2]):
        if token.token_type == TokenType.L_BRACKET and tokens[place + 1].text.upper() == "RANGE":
            rest = tokens[place + 2 :]
            end = next(
                (k for k, t in enumerate(rest) if t.token_type == TokenType.R_BRACKET or t.text.upper() == "SLIDE"), 0
            )
            if end:
                yield rest[0].start, rest[end - 1].end + 1


def _tokens(text: str) -> list[Token]:
    return list(Midstream().tokenize(text))


def _replaced(text: str, spans: list[Span], by: str) -> str:
    for start, end in reversed(spans):
        text = text[:start] + by + text[end:]
    return text
