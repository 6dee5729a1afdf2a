"""The examples make the points they are there for, and print what their READMEs show."""

import importlib.util
import itertools
import re
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / name / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(name: str) -> str:
    """Return the output that the README of an example shows."""
    (block,) = re.findall(r"^```text\n(.*?)^```", (EXAMPLES / name / "README.md").read_text("utf-8"), re.M | re.S)
    return str(block)


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    return "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()).strip("\n") + "\n"


def test_nobody_gets_extra_tries_when_the_policy_of_an_atm_changes(capsys: pytest.CaptureFixture[str]) -> None:
    atm = load("atm")
    days = {method: atm.change_at_noon(method) for method in atm.METHODS}
    tries = atm.failed_logins()
    mallory, carol = ("mallory", "harbour"), ("carol", "market")
    assert [t < atm.NOON for t in tries[mallory]] == [True, True, False, False, False]

    drained = days["drain"].blocks
    assert (drained[mallory].tries, drained[mallory].version) == (3, 1)
    assert (drained[carol].tries, drained[carol].version) == (3, 2)
    assert set(drained) == by_hand(tries, atm.NOON)
    assert days["drain"].record["loss"] == 0

    # The naive way allows 5 tries in 20 minutes; the cautious one does not see all of the new policy's rows.
    naive = days["immediate"].blocks[mallory]
    assert (naive.tries, naive.version) == (5, 2)
    assert (naive.at - tries[mallory][0]).total_seconds() == 20 * 60
    assert carol not in days["delayed-drain"].blocks

    atm.tell(days)
    assert printed(capsys) == shown("atm")


def by_hand(tries: dict[Any, list[Any]], noon: Any) -> set[Any]:
    """Return who has three tries that one policy forbids: the old one if any of them is old, else the new one."""
    blocked = set()
    for place, times in tries.items():
        for first, third in zip(times, times[2:], strict=False):
            if (third - first).total_seconds() < (600 if first < noon else 900):
                blocked.add(place)
    return blocked


@pytest.mark.slow
def test_a_fire_is_found_as_fast_as_possible(capsys: pytest.CaptureFixture[str]) -> None:
    wildfire = load("wildfire")
    found = {name: wildfire.locate(options) for name, options in wildfire.METHODS.items()}
    assert {f.sensor for f in found.values()} == {f"r{wildfire.FIRE_REGION:02d}-{wildfire.FIRE_SENSOR:02d}"}

    at_once, graceful = found["immediate"], found["graceful-immediate"]
    assert at_once.located_s == min(f.located_s for f in found.values())
    assert at_once.record["two_versions_us"] == 0
    assert graceful.located_s == at_once.located_s
    assert graceful.silence_s < at_once.silence_s
    for patient in ("drain/query", "delayed-drain"):
        assert found[patient].first_answer_s >= 10 * at_once.first_answer_s

    wildfire.tell(found)
    assert printed(capsys) == shown("wildfire")


@pytest.mark.slow
def test_versions_follow_the_load_and_no_minute_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    levels = load("load_levels")
    minutes, changes = levels.drive(adaptive=True)
    always, _ = levels.drive(adaptive=False)
    assert [m.rate for m in minutes] == list(levels.RATES)
    assert len({m.level for m in minutes}) == 3
    for before, minute in itertools.pairwise(minutes):
        assert minute.level == levels.level_for(before.rate, before.level)
    assert all(m.level == "full" for m in always)

    # Each minute is answered by one version, in full; what is changed is never seen.
    places = {"full": levels.ROADS, "sampled": levels.ROADS, "coarse": levels.ZONES}
    for minute in minutes:
        assert len({row["_version"] for row in minute.results}) == 1
        assert set(Counter(row["place"] for row in minute.results).values()) == {1}
        assert len(minute.results) == places[minute.level]
        assert sum(row["readings"] for row in minute.results) == pytest.approx(minute.rate * 60, rel=0.08)
    assert [(c["state"], c["loss"], c["two_versions_us"]) for c in changes] == [("finished", 0, 0)] * 4
    assert levels.error(minutes, always) < 0.1
    assert max(m.rows_aggregated for m in minutes) < max(m.rows_aggregated for m in always) / 3

    levels.tell(minutes, changes, always)
    assert printed(capsys) == shown("load_levels")
