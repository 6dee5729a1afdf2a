"""Engines that are wrong in one place: the comparison with the oracle must find each of them.

A mutant is a change of one method of the engine; the cases are fixed, so that a mutant that lives is a test that is
missing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from change.test_guarantees import check_figure_10, check_overlaps

from midstream.change.account import Account
from midstream.change.control import ControlManager
from midstream.change.guarantees import LABELS
from midstream.change.lifecycle import Life
from midstream.change.prints import Prints
from midstream.change.reference import Reference
from midstream.change.under_way import Change as UnderWay
from midstream.engine.run.sliding import SlidingRun
from midstream.operators.contract.ends import Ends
from oracle.change_run import Change
from oracle.changes import METHODS, Aggregates, RangeSlide, RowsSlide
from oracle.test_changes import COUNTS, Case, check, rows_at
from seeds import few_quick

ROWS = rows_at(range(0, 60))


def sums(count: int, slide: int = 1) -> Aggregates:
    return Aggregates("s", RowsSlide(count, slide), COUNTS)


CASES = [
    *(Case(ROWS, sums(10), (Change(20, sums(6), method),), batch, 1) for method in METHODS for batch in (7, 1000)),
    *(Case(ROWS, sums(6), (Change(20, sums(6), method),), 7, 1) for method in METHODS[-2:]),
    Case(ROWS, sums(4), (Change(20, sums(2, 2), "delayed-drain"),), 7, 1),
    Case(ROWS, sums(10, 10), (Change(20, Aggregates("s", RangeSlide(20, 1), COUNTS), "graceful-drain"),), 3, 1),
    *(
        Case(ROWS, sums(12), (Change(20, sums(5), first), Change(23, sums(7), second)), 7, 1)
        for first in ("graceful-immediate", "drain/query", "drain/stream", "delayed-drain")
        for second in ("drain/stream", "drain/query", "immediate", "graceful-drain")
    ),
]


def nothing(*arguments: Any, **named: Any) -> None:
    pass


def shifted(method: Callable[..., None], name: str) -> Callable[..., None]:
    """Return a method after which a number of the record is one too large."""

    def wrong(account: Account, *arguments: Any) -> None:
        before = getattr(account.record, name)
        method(account, *arguments)
        if getattr(account.record, name) != before:
            setattr(account.record, name, getattr(account.record, name) + 1)

    return wrong


def always_first(manager: ControlManager, life: Life) -> UnderWay:
    """Charge every loss to the first change."""
    return manager.changes[0]


MUTANTS: dict[str, tuple[type, str, Any]] = {
    "what is pending stays in force": (ControlManager, "_void", nothing),
    "what is held back stays so": (ControlManager, "_interleave", nothing),
    "losses are the first change's": (ControlManager, "_stopper", always_first),
    "a delayed drain loses nothing": (Reference, "compare", lambda *_: 0),
    "response is off by one": (Account, "close", shifted(Account.close, "response_us")),
    "query disorder is off by one": (Account, "_count", shifted(Account._count, "query_disorder")),
    "stream disorder is off by one": (Account, "_count", shifted(Account._count, "stream_disorder")),
    "what was held is off by one": (Account, "_count", shifted(Account._count, "rows_held")),
    "new results are off by one": (Account, "_count", shifted(Account._count, "new_results")),
    "extra results are not counted": (Account, "_repeated", nothing),
    "fingerprints are lost": (Prints, "add", nothing),
    "an over drain is over at its position": (Ends, "last_us", nothing),
    "drains are never over": (SlidingRun, "drained", nothing),
    "both versions never ran together": (UnderWay, "note_overlap", nothing),
}


@pytest.mark.parametrize("name", few_quick(MUTANTS, 5))
def test_a_wrong_engine_is_found(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place, method, wrong = MUTANTS[name]
    monkeypatch.setattr(place, method, wrong)
    for case in CASES:
        try:
            check(case, tmp_path)
        except (AssertionError, pytest.fail.Exception):
            return
    pytest.fail("no case tells this engine from the right one")


SHOWN = (
    "what is pending stays in force",
    "what is held back stays so",
    "losses are the first change's",
    "a delayed drain loses nothing",
    "extra results are not counted",
    "fingerprints are lost",
    "an over drain is over at its position",
    "drains are never over",
)
"""Mutants that break a guarantee; the others miscount what is broken or not all the same."""


@pytest.mark.parametrize("name", few_quick(SHOWN, 2))
def test_a_wrong_engine_breaks_figure_10(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, method, wrong = MUTANTS[name]
    monkeypatch.setattr(place, method, wrong)
    for check_label in (check_figure_10, check_overlaps):
        for label in LABELS:
            try:
                check_label(label)
            except AssertionError:
                return
    pytest.fail("figure 10 holds for this engine, too")


def test_the_right_engine_passes(tmp_path: Path) -> None:
    for case in CASES:
        check(case, tmp_path)
