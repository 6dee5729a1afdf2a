"""What queries cannot do yet, by name: the one place where a combination is refused, with the sentence users read.

A query is a tree of operators, when it answers and what it emits. The language can say more than the operators can do;
whoever meets such a combination, the binder with a place in the text or a tree built by hand, takes the sentence here.
"""

from midstream.model.errors import PlanError

MOST_IN_DIFFERENCE = 62
"""Streams in one chain of differences that answers row by row."""

LIMITS: dict[str, str] = {
    # Without HOP BY.
    "operator row by row": "{word} is not supported yet",
    "EXCEPT ALL row by row": "EXCEPT ALL is not supported; EXCEPT compares values, however often they appear",
    "nested EXCEPT row by row": (
        "the right side of EXCEPT is one SELECT; a difference is taken from left to right: (a EXCEPT b) EXCEPT c"
    ),
    "EXCEPT over a join row by row": "each side of EXCEPT reads one stream, but here is '{other}' beside '{alias}'",
    "aggregates in a difference row by row": "{word} is not supported in a difference yet",
    "long difference row by row": f"a chain of differences has at most {MOST_IN_DIFFERENCE} streams, not {{count}}",
    "window over a set operation": "a window over UNION, INTERSECT or EXCEPT is not supported yet",
    "join over a subquery row by row": (
        "a subquery in FROM is for aggregates over a window that slides; joins and differences read streams"
    ),
    "anti join row by row": "{word} is only for queries that hop yet; write HOP BY ... at the end",
    "join order of a difference": (
        "plan '{plan}' is no order of this difference: it begins with '{first}' and takes the others away one after "
        "the other, such as {example}"
    ),
    "join method of a difference": 'join = "{method}" is for joins, and a difference has none',
    # With HOP BY.
    "window that slides with HOP BY": (
        "a window that slides does not go with HOP BY, which says when there are results; write [RANGE ...] or "
        "[ROWS ...]"
    ),
    "window over a subquery with HOP BY": "with HOP BY a window stands after a stream, not after a subquery",
    "INTERSECT ALL": "INTERSECT ALL is not supported; INTERSECT is",
    # Either.
    "subquery as a condition": "subqueries are not supported",
    # Changes.
    "change of a difference": (
        "{which} is a difference, which takes results back: what it has begun cannot be finished apart; use method "
        "{allowed}, not {method}"
    ),
    "drain of a difference": ("a difference takes results back: what it has begun cannot be finished apart; use istop"),
}
"""What is refused, and how that is said."""


def cannot(limit: str, **named: object) -> str:
    """Return the sentence of a limit.

    >>> cannot("operator row by row", word="UNION")
    'UNION is not supported yet'
    """
    return LIMITS[limit].format(**named)


def refuse(limit: str, **named: object) -> PlanError:
    """Make the error of a limit."""
    return PlanError(cannot(limit, **named))
