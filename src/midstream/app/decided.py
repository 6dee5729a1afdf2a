"""Decisions in words: what a query has decided of its plan by itself, why, and whether that has paid."""

from collections.abc import Sequence
from typing import Any

from midstream.engine.planning.decisions import ADVISED, OPEN, TAKEN
from midstream.model.time import format_instant

Decided = dict[str, Any]
PAYS, NOT_YET = "has paid so far", "has not paid yet"
"""How a decision stands while it is measured."""


def decision_lines(decision: Decided) -> list[str]:
    """Return a decision as people read it.

    >>> predicted = {"before": 2000.0, "after": 500.0, "migration": 60000.0, "horizon_s": 40.0}
    >>> said = {"when": 0, "from": "((a b) c)", "to": "(a (b c))", "strategy": "hybrid", "why": "it is cheaper"}
    >>> decision_lines({**said, "predicted": predicted, "measured": {}, "state": "taken"})[0]
    '1970-01-01 00:00:00 taken: ((a b) c) -> (a (b c)) by hybrid'
    """
    when = format_instant(decision["when"])[:19]
    lines = [f"{when} {standing(decision)}: {decision['from']} -> {decision['to']} by {decision['strategy']}"]
    lines.append(f"why: {decision['why']}")
    measured = decision["measured"]
    if "after" in measured:
        lines.append(
            f"measured in {measured['seconds']:g} s: {measured['after']:,.0f} a second where the old plan would have "
            f"taken {measured['instead']:,.0f}; saved {measured['saved']:,.0f}"
        )
    return lines


def choice(decision: Decided) -> str:
    """Write a decision in a line: from, to, and what is expected of it.

    >>> predicted = {"before": 2000.0, "after": 500.0, "migration": 60000.0, "horizon_s": 40.0}
    >>> said = {"from": "((a b) c)", "to": "(a (b c))", "strategy": "hybrid", "predicted": predicted, "why": "cheap"}
    >>> choice(said)
    '((a b) c) -> (a (b c)) by hybrid: work expected to fall from 2,000 to 500 a second'
    >>> choice({**said, "predicted": {}})
    '((a b) c) -> (a (b c)) by hybrid: cheap'
    """
    expected = decision["predicted"]
    why = decision["why"]
    if "before" in expected:
        why = f"work expected to fall from {expected['before']:,.0f} to {expected['after']:,.0f} a second"
    return f"{decision['from']} -> {decision['to']} by {decision['strategy']}: {why}"


def standing(decision: Decided) -> str:
    """Return how a decision stands, in a word or a few.

    >>> predicted, measured = {"migration": 60000.0}, {"after": 510.0, "saved": 59000.0}
    >>> standing({"state": "taken", "predicted": predicted, "measured": measured})
    'has not paid yet'
    >>> standing({"state": "taken", "predicted": predicted, "measured": {**measured, "saved": 61000.0}})
    'has paid so far'
    >>> standing({"state": "did not pay", "predicted": predicted, "measured": measured})
    'did not pay'
    """
    known = "after" in decision["measured"] and "migration" in decision["predicted"]
    if decision["state"] not in (TAKEN, OPEN) or not known:
        return str(decision["state"])
    return PAYS if decision["measured"]["saved"] > decision["predicted"]["migration"] else NOT_YET


def payoff(decision: Decided) -> str:
    """Write whether a decision has paid: what was measured beside what was expected; "" where that is not known.

    >>> predicted = {"before": 2000.0, "after": 500.0, "migration": 600.0, "horizon_s": 40.0}
    >>> measured = {"after": 512.0, "instead": 1900.0, "saved": 27760.0, "seconds": 20.0}
    >>> payoff({"state": "paid", "predicted": predicted, "measured": measured})
    'paid: in 20 s it took 512 a second, 500 expected, the old plan 1,900; saved 27,760, the migration was to take 600'
    >>> payoff({"state": "taken", "predicted": predicted, "measured": {"before": 2100.0}})
    ''
    """
    expected, measured = decision["predicted"], decision["measured"]
    if "after" not in measured or "after" not in expected:
        return "" if decision["state"] in (TAKEN, OPEN) else standing(decision)
    return (
        f"{standing(decision)}: in {measured['seconds']:.0f} s it took {measured['after']:,.0f} a second, "
        f"{expected['after']:,.0f} expected, the old plan {measured['instead']:,.0f}; saved {measured['saved']:,.0f}, "
        f"the migration was to take {expected['migration']:,.0f}"
    )


def decided_figures(decisions: Sequence[Decided]) -> list[tuple[str, str]]:
    """Return decisions for people who look at a query: each, and under it whether it has paid.

    >>> predicted = {"before": 2000.0, "after": 500.0, "migration": 6000.0, "horizon_s": 40.0}
    >>> said = {"from": "((a b) c)", "to": "(a (b c))", "strategy": "hybrid", "predicted": predicted, "why": "cheap"}
    >>> decided_figures([{**said, "state": "advised", "measured": {}}])[1]
    ('', 'advised')
    """
    rows = []
    for decision in decisions:
        paid = payoff(decision) or ("not measured yet" if decision["state"] == TAKEN else "")
        rows += [("decided", choice(decision)), *([("", paid)] if paid else [])]
    return rows


class News:
    """What is new of a query's decisions since somebody last looked."""

    def __init__(self) -> None:
        self._told: dict[tuple[int, str, str], str] = {}

    def of(self, decisions: Sequence[Decided]) -> list[str]:
        """Return a line for each decision that was made, and for each that turned out to pay, or not to.

        >>> predicted = {"before": 2000.0, "after": 500.0, "migration": 60000.0, "horizon_s": 40.0}
        >>> made = {"when": 0, "from": "((a b) c)", "to": "(a (b c))", "strategy": "hybrid", "why": "it is cheaper"}
        >>> made |= {"predicted": predicted, "measured": {}, "state": "taken"}
        >>> news, measured = News(), {"after": 512.0, "instead": 1900.0, "saved": 60001.0, "seconds": 44.0}
        >>> for state in ({}, {}, {"measured": measured}, {"measured": measured, "state": "paid"}):
        ...     print([line.split(":")[0] for line in news.of([{**made, **state}])])
        ['decided']
        []
        ['((a b) c) -> (a (b c)) has paid so far']
        ['((a b) c) -> (a (b c)) paid']
        """
        lines = []
        for decision in decisions:
            name = decision["when"], decision["from"], decision["to"]
            if name not in self._told:
                word = "advised" if decision["state"] == ADVISED else "decided"
                lines.append(f"{word}: {choice(decision)}")
                self._told[name] = TAKEN
            now = standing(decision)
            if now not in (self._told[name], TAKEN, OPEN, ADVISED, NOT_YET):
                lines.append(f"{decision['from']} -> {decision['to']} {payoff(decision)}")
                self._told[name] = now
        return lines
