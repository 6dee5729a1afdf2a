"""The run log: a run is seen before it looks, and is the only one that writes what is its own."""

import json
from pathlib import Path
from unittest import mock

import pytest

from midstream.engine.world import World
from midstream.live.run_log import MOST_RUNS, RunLog
from midstream.local.disk import THIS_MACHINE
from midstream.model.errors import MidstreamError
from midstream.model.timing import Timing


@pytest.fixture
def log(tmp_path: Path) -> RunLog:
    return RunLog(tmp_path / "runs", THIS_MACHINE)


def test_each_run_knows_those_before(log: RunLog) -> None:
    assert log.latest() == 0
    log.begin(lambda: -1)
    runs = log.begin(lambda: 6)
    assert (runs.latest, runs.of(6), runs.of(7)) == (2, 1, 2)
    assert log.latest() == 2


def test_a_run_knows_what_those_allowed_that_planned_what_it_may_run_again(log: RunLog, tmp_path: Path) -> None:
    allowed = {0: Timing(5), 2: Timing(0, idle_us=7, ahead_us=9)}
    assert log.begin(lambda: -1, allowed).timings_before is None
    assert log.begin(lambda: 6, {0: Timing(1)}).timings_before == allowed
    # A run that has planned nothing has nothing that could be run again.
    assert log.begin(lambda: 6).timings_before == allowed
    assert log.begin(lambda: 7, {0: Timing(2)}).timings_before is None  # an older release wrote what was before
    file = tmp_path / "runs" / "00000004.json"
    file.write_text(json.dumps({"format": 1, "first": 8, "timings": {"0": {"lateness": 1}}}))
    with pytest.raises(MidstreamError, match=f"{file} is broken, it is cut short or something in it is wrong"):
        log.begin(lambda: 9)


def test_a_run_is_seen_before_it_asks_what_was_planned(log: RunLog) -> None:
    seen = []

    def planned() -> int:
        seen.append(log.latest())
        return -1

    log.begin(planned)
    assert seen == [1]


def test_a_run_that_another_one_overtakes_while_it_asks_does_not_begin(log: RunLog) -> None:
    log.begin(lambda: -1)
    later = []

    def planned() -> int:
        later.append(log.begin(lambda: 3))
        return 3

    with pytest.raises(MidstreamError, match="run 2 has not begun: another process has begun run 3 meanwhile"):
        log.begin(planned)
    assert later[0].begun == ((1, 0), (3, 4))
    assert log.begin(lambda: 5).begun == ((1, 0), (3, 4), (4, 6))


def test_a_number_is_given_once(log: RunLog, tmp_path: Path) -> None:
    log.begin(lambda: -1)
    (tmp_path / "runs" / "00000002.begun").touch()  # by a driver that died there
    assert log.begin(lambda: 4).begun == ((1, 0), (3, 5))


def test_what_an_older_release_wrote_is_read(log: RunLog, tmp_path: Path) -> None:
    (tmp_path / "runs.json").write_text(json.dumps({"format": 1, "runs": [[4, 0], [5, 9]]}))
    assert log.latest() == 5
    assert log.begin(lambda: 11).begun == ((4, 0), (5, 9), (6, 12))


def test_old_runs_are_forgotten(log: RunLog, tmp_path: Path) -> None:
    for batch in range(MOST_RUNS + 5):
        runs = log.begin(lambda batch=batch: batch)  # type: ignore[misc]
    assert len(runs.begun) == MOST_RUNS
    assert len(list((tmp_path / "runs").iterdir())) == 2 * MOST_RUNS
    assert runs.of(50) == 50


def test_of_two_that_begin_at_once_one_does(log: RunLog, tmp_path: Path) -> None:
    log.begin(lambda: -1)
    with (
        mock.patch.object(World, "add", return_value=False),
        pytest.raises(MidstreamError, match="run 2 has not begun"),
    ):
        log.begin(lambda: 3)
    assert log.begin(lambda: 3).latest == 2
