"""What queries cannot do yet, by name: the one place where a combination is refused, with the sentence users read.

A query is a tree of operators, when it answers and what it emits. The language can say more than the operators can do;
whoever meets such a combination, the binder with a place in the text or a tree built by hand, takes the sentence here.
"""

from typing import NamedTuple

from midstream.model.errors import PlanError

MOST_IN_DIFFERENCE = 62
"""Streams in one chain of differences that answers row by row."""


class Limit(NamedTuple):
    """What is refused, how that is said, and of which queries: those that hop, those that do not, or None: all."""

    hops: bool | None
    sentence: str
    at_hops: bool = False
    """Whether a query that hops can do it, which is then said, too."""


HOP_BY = "write HOP BY ... at the end"
AT_HOPS = "plain windows such as [RANGE 10 SECONDS], and HOP BY ... at the end"
JOIN_EXAMPLE = f"to aggregate a join write FROM (SELECT ...) [ROWS 10 SLIDE 5], or {AT_HOPS}"
ROWS, HOPS = False, True
LIMITS: dict[str, Limit] = {
    # Without HOP BY.
    "operator": Limit(ROWS, "{word} is not supported yet", at_hops=True),
    "EXCEPT ALL": Limit(
        ROWS, "EXCEPT ALL is not supported; EXCEPT compares values, however often they appear", at_hops=True
    ),
    "nested EXCEPT": Limit(
        ROWS,
        "the right side of EXCEPT is one SELECT; a difference is taken from left to right: (a EXCEPT b) EXCEPT c",
        at_hops=True,
    ),
    "EXCEPT over a join": Limit(
        ROWS, "each side of EXCEPT reads one stream, but here is '{other}' beside '{alias}'", at_hops=True
    ),
    "aggregates in a difference": Limit(ROWS, "{word} is not supported in a difference yet", at_hops=True),
    "long difference": Limit(ROWS, f"a chain of differences has at most {MOST_IN_DIFFERENCE} streams, not {{count}}"),
    "window over a set operation": Limit(
        ROWS,
        "a window over UNION, INTERSECT or EXCEPT is not supported yet; leave it out, and " + HOP_BY,
    ),
    "join over a subquery": Limit(
        ROWS,
        "a subquery in FROM is for aggregates over a window that slides; joins and differences read streams",
        at_hops=True,
    ),
    "window that slides in a join": Limit(ROWS, "{window} is for aggregates; " + JOIN_EXAMPLE),
    "window that slides without an aggregate": Limit(
        ROWS, "{window} needs an aggregate; write for example SELECT COUNT(*), or " + AT_HOPS
    ),
    "anti join": Limit(ROWS, "{word} is only for queries that hop yet; " + HOP_BY),
    "join order of a difference": Limit(
        ROWS,
        "plan '{plan}' is no order of this difference: it begins with '{first}' and takes the others away one after "
        "the other, such as {example}",
    ),
    "join method of a difference": Limit(ROWS, 'join = "{method}" is for joins, and a difference has none'),
    "change of a difference": Limit(
        ROWS,
        "{which} is a difference, which takes results back: what it has begun cannot be finished apart; use method "
        "{allowed}, not {method}",
    ),
    "drain of a difference": Limit(
        ROWS, "a difference takes results back: what it has begun cannot be finished apart; use istop"
    ),
    "framework of a difference": Limit(
        ROWS, 'framework = "{framework}" is for joins; a difference runs with framework = "tree"'
    ),
    "windows over results at sites": Limit(
        ROWS, 'framework = "sites" joins streams; windows and aggregates over their results run with framework = "tree"'
    ),
    "one stream at sites": Limit(
        ROWS, 'framework = "sites" joins streams, and this query reads one; it runs with framework = "tree"'
    ),
    "strategy of a difference": Limit(
        ROWS, "{strategy} is for joins: a difference would answer from half-filled states; use just-in-time"
    ),
    "parallel track over keyed rows": Limit(
        ROWS,
        "parallel-track would hold its output back for ever: old rows of {window} may never leave; "
        'use output = "merged", hybrid or just-in-time',
    ),
    "parallel track below windows": Limit(
        ROWS,
        "parallel-track would hand the windows above the join its results too late; "
        'use output = "merged", hybrid or just-in-time',
    ),
    "adaptation": Limit(ROWS, "what adapts by itself is a hopping query (HOP BY)"),
    # With HOP BY.
    "join method of hops": Limit(
        HOPS, "join = '{method}' is for sliding joins; those of a hopping query match by key where they can"
    ),
    "framework of hops": Limit(HOPS, "a hopping query runs as a tree, not as {framework}"),
    "migration of hops": Limit(
        HOPS, "{what} is for sliding joins; a hopping query goes on with another plan at a hop, whole"
    ),
    "general migration to another hop": Limit(
        HOPS, "{strategy} goes on at the hops there are; for another hop use moving-state"
    ),
    "other hop by rows": Limit(
        HOPS, "HOP BY {rows} ROWS counts rows; another hop is for queries that hop by time, such as HOP BY 30 SECONDS"
    ),
    "tuples between hops of rows": Limit(
        HOPS, "working=tuple cuts the time between two hops; with HOP BY {rows} ROWS operators work once a hop"
    ),
    "change of hops of rows": Limit(
        HOPS,
        "{which} counts rows (HOP BY {rows} ROWS), and versions meet at times: start it anew, or hop by time, such as "
        "HOP BY 30 SECONDS",
    ),
    "general migration of hops of rows": Limit(
        HOPS, "{strategy} meets the running plan at a time, and HOP BY {rows} ROWS counts rows; use moving-state"
    ),
    "stream without a window": Limit(HOPS, "stream '{alias}' needs a window with HOP BY; write for example {example}"),
    "window of no length": Limit(HOPS, "a window of no length is empty at every hop: {window}"),
    "window that slides": Limit(
        HOPS,
        "{window} does not go with HOP BY, which says when there are results; write [RANGE ...] or [ROWS ...]",
    ),
    "window over a subquery": Limit(HOPS, "with HOP BY a window stands after a stream, not after a subquery"),
    "INTERSECT ALL": Limit(HOPS, "INTERSECT ALL is not supported; INTERSECT is"),
    # Either.
    "EXISTS": Limit(
        None,
        "EXISTS is only for WHERE ... AND NOT EXISTS (SELECT ...), joined to other conditions by AND, in a query with "
        "HOP BY at the end",
    ),
    "IN with a subquery": Limit(
        None,
        "IN takes a list of values; for a subquery write JOIN (SELECT DISTINCT ...) ON ..., and HOP BY ... at the end",
    ),
    "NOT IN with a subquery": Limit(
        None, "NOT IN takes a list of values; for a subquery write NOT EXISTS (SELECT ...), and HOP BY ... at the end"
    ),
    "subquery as a condition": Limit(
        None, "subqueries are not supported as values; they can be joined in FROM, in a query with HOP BY at the end"
    ),
}


def cannot(limit: str, **named: object) -> str:
    """Return the sentence of a limit.

    >>> cannot("operator", word="UNION")
    'UNION is not supported yet; a query that hops can do it: write HOP BY ... at the end'
    """
    _, sentence, at_hops = LIMITS[limit]
    return sentence.format(**named) + (f"; a query that hops can do it: {HOP_BY}" if at_hops else "")


def refuse(limit: str, **named: object) -> PlanError:
    """Make the error of a limit."""
    return PlanError(cannot(limit, **named))
