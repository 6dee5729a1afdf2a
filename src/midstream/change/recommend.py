"""Which method to take, from what matters: the decision matrix of the paper (table 2), and the rules after it.

LDD rule  no loss, query order and stream order: at most two of them in general
LD rule   all three where the new query cannot answer before the old one has finished
LT rule   a change that loses nothing cannot promise to end
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from midstream.change.guarantees import (
    DRAIN_QUERY,
    DRAIN_STREAM,
    FIG_10,
    LABELS,
    Guarantees,
)
from midstream.change.request import DELAYED_DRAIN, GRACEFUL_DRAIN, GRACEFUL_IMMEDIATE, IMMEDIATE
from midstream.model.errors import PlanError

LOSS, RESPONSE, IN_QUERY_ORDER, IN_STREAM_ORDER, DUPLICATES, RESOURCES = WORDS = (
    "loss", "response", "query-order", "stream-order", "duplicates", "resources",
)  # fmt: skip
"""What can matter; where not all can be had, the first ones weigh more."""
ORDER = "order"
"""Short for both orders."""
GIVES = {
    LOSS: "loses nothing",
    RESPONSE: "never pauses the output",
    IN_QUERY_ORDER: "keeps query order",
    IN_STREAM_ORDER: "keeps stream order",
    DUPLICATES: "repeats nothing",
    RESOURCES: "never runs two queries at once",
}
CELLS = {LOSS: "loss", IN_QUERY_ORDER: "query_order", IN_STREAM_ORDER: "stream_order", DUPLICATES: "duplicates"}
METHODS_THAT = {RESPONSE: (GRACEFUL_IMMEDIATE, GRACEFUL_DRAIN), RESOURCES: (IMMEDIATE, DELAYED_DRAIN)}
PREFERRED = (DRAIN_STREAM, DRAIN_QUERY, GRACEFUL_IMMEDIATE, GRACEFUL_DRAIN, IMMEDIATE, DELAYED_DRAIN)
"""Which method is taken of those that give what matters: the first."""
CONFLICTS = {
    frozenset({LOSS, IN_QUERY_ORDER, IN_STREAM_ORDER}): (
        "by the LDD rule a change has at most two of no loss, query order and stream order"
    ),
    frozenset({LOSS, RESOURCES}): "what the old query has begun can be finished only beside the new one",
    frozenset({RESPONSE, RESOURCES}): "the old query runs until the new one answers, so that both run",
    frozenset({LOSS, RESPONSE, DUPLICATES}): (
        "a query that runs until the new one answers, and then finishes, has taken rows that the new one takes too"
    ),
    frozenset(
        {LOSS, RESPONSE, IN_QUERY_ORDER}
    ): "a query that finishes after the new one's first answer comes after it",
}
"""What cannot be had together in general, and why."""


class Recommendation(NamedTuple):
    """A method, its order if it is a drain, and why."""

    method: str
    order: str | None
    why: str

    @property
    def label(self) -> str:
        """Return the method as the table of guarantees calls it."""
        return self.method if self.order is None else f"{self.method}/{self.order}"


def read_matters(text: str) -> set[str]:
    """Read what matters from words with commas between.

    >>> sorted(read_matters("loss, order"))
    ['loss', 'query-order', 'stream-order']
    """
    return checked(word.strip() for word in text.split(",") if word.strip())


def checked(matters: Iterable[str]) -> set[str]:
    """Return what matters, refusing words that mean nothing here."""
    out: set[str] = set()
    for word in matters:
        if word not in (*WORDS, ORDER):
            raise PlanError(f"'{word}' is nothing that can matter to a change; it can be {', '.join((*WORDS, ORDER))}")
        out |= {IN_QUERY_ORDER, IN_STREAM_ORDER} if word == ORDER else {word}
    return out


def recommend(matters: Iterable[str], known: Mapping[str, Guarantees] | None = None) -> Recommendation:
    """Return the method that gives what matters, or most of it; `known` says what holds for the queries at hand.

    >>> recommend({"loss", "query-order"}).label, recommend({"resources"}).label, recommend(()).label
    ('drain/query', 'immediate', 'drain/stream')
    """
    wanted = checked(matters)
    allowed = [label for label in LABELS if known is None or not known[label].refused]
    given = {label: {w for w in wanted if gives(label, w, known)} for label in allowed}
    best = max(allowed, key=lambda label: _rank(label, given[label], known))
    method, _, order = best.partition("/")
    perfect = known is not None and known[best].perfect
    if given[best] == wanted:
        why = _praise(best, wanted, perfect)
    else:
        rules = (
            why for words, why in CONFLICTS.items() if words <= wanted and not any(words <= g for g in given.values())
        )
        why = _excuse(wanted, given[best], next(rules, "each lacks something"))
    return Recommendation(method, order or None, why)


def gives(label: str, word: str, known: Mapping[str, Guarantees] | None = None) -> bool:
    """Return whether a method gives something that can matter."""
    if word in METHODS_THAT:
        return label in METHODS_THAT[word]
    return FIG_10[label][CELLS[word]] if known is None else known[label].cells[CELLS[word]].holds


def _rank(label: str, given: set[str], known: Mapping[str, Guarantees] | None) -> tuple[int, list[bool], bool, int]:
    """Say how good a method is: how much of what matters it gives, what weighs more, then all guarantees at once."""
    perfect = known is not None and label == DRAIN_QUERY and known[label].perfect
    return len(given), [w in given for w in WORDS], perfect, -PREFERRED.index(label)


def _praise(label: str, wanted: set[str], perfect: bool) -> str:
    if wanted:
        said = " and ".join(GIVES[w] for w in WORDS if w in wanted)
        return f"it {said}" + (", and everything else is guaranteed too" if perfect else "")
    if perfect:
        return "everything is guaranteed for these queries"
    drains = label in (DRAIN_QUERY, DRAIN_STREAM)
    return "it loses and repeats nothing" if drains else "no other method is for these queries"


def _excuse(wanted: set[str], given: set[str], rule: str) -> str:
    has = f"this one {' and '.join(GIVES[w] for w in WORDS if w in given)} and " if given else "this one "
    return f"no method gives {_list(wanted)} here: {rule}; {has}gives up {_list(wanted - given)}"


def _list(wanted: set[str]) -> str:
    *first, last = [w for w in WORDS if w in wanted]
    return f"{', '.join(first)} and {last}" if first else last
