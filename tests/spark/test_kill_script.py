"""What the kill campaign draws is there: each point of the live path, everybody who can be killed. Needs no Spark."""

import re
from collections import Counter
from pathlib import Path

import pytest
from spark.adopted_kills import LIVES as LIVES_OF_ADOPTED
from spark.kill_script import KINDS, METHODS, STRATEGIES, draw
from spark.sites_kills import LIVES as LIVES_OVER_SITES

import midstream
from midstream.model.failpoint import parse

HOUSE = Path(midstream.__file__).parent
REACHED = re.compile(r'\breach\("([^"]+)"\)')
EVENT = re.compile(r"event .*?( noted)?")
LIVES = 60


def points_of(*rooms: str, adopted: bool = False) -> set[str]:
    """Return the points that the code of some rooms passes: that of adopted programs, or all other."""
    files = [file for room in rooms for file in (HOUSE / room).rglob("*.py") if ("adopted" in file.parts) == adopted]
    return {name for file in files for name in REACHED.findall(file.read_text())}


@pytest.fixture(scope="module")
def drawn() -> Counter[tuple[str, str]]:
    """Draw some lives; count what is done at which point."""
    faults = [parse(fault) for seed in range(LIVES) for fault in draw(seed).faults]
    return Counter((point, str(a)) for f in faults for point, passes in f.items() for p in passes.values() for a in p)


def test_every_point_of_the_live_path_is_drawn(drawn: Counter[tuple[str, str]]) -> None:
    names = {point for point, _ in drawn}
    events = {name for name in names if EVENT.fullmatch(name)}
    # Only joins over sites send mail: their campaign passes the points of the mailbox.
    mail = {point for life in LIVES_OVER_SITES.values() for fault in life.kills for point in parse(fault)}
    points = points_of("live", "spark")
    assert names - events == {point for point in points if not point.startswith("mail ")}
    assert mail >= points - names
    assert {name.removesuffix(" noted") for name in events} >= {"event started", "event change", "event migration"}
    assert len(names) > 50


def test_every_point_of_a_deployment_is_in_a_life(drawn: Counter[tuple[str, str]]) -> None:
    names = {kill.partition(":")[0] for life in LIVES_OF_ADOPTED.values() for kill in life.kills}
    assert points_of("live", "spark", adopted=True) <= names | {point for point, _ in drawn}
    assert len(names) >= 20


def test_everybody_is_killed_and_halted(drawn: Counter[tuple[str, str]]) -> None:
    done = Counter[str]()
    for (_, action), count in drawn.items():
        done[action.partition(" after ")[0]] += count
    assert done.keys() == {
        "kill", "kill driver", "kill jvm", "kill daemon", "kill all", "stop", "stop jvm", "stop daemon",
    }  # fmt: skip
    assert sum(done.values()) > 20 * LIVES


def test_queries_change_and_migrate_in_every_way() -> None:
    lives = [draw(seed) for seed in range(LIVES)]
    assert {life.kind for life in lives} == KINDS.keys()
    assert {ask.change for life in lives for ask in life.asked} >= {*METHODS}
    assert {ask.strategy for life in lives for ask in life.asked} >= {*STRATEGIES}
