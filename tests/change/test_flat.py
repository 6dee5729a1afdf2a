"""Changes that need not end hold no more and do no more per row, however many rows come: counted, not timed."""

import json

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.app.engine import Run
from midstream.engine.run.sliding import SlidingRun
from seeds import few_quick

PER_KEY = "SELECT SUM(v) AS total FROM s [ROWS 3 SLIDE 3 PARTITION BY k]"
OTHER = "SELECT MAX(v) AS total FROM s [ROWS 2 SLIDE 1 PARTITION BY k]"
ROWS = "SELECT SUM(v) AS total FROM s [ROWS {} SLIDE 1]"
HOPS = "SELECT SUM(v) AS total FROM s [RANGE 1000 MICROSECONDS] HOP BY 500 MICROSECONDS"
KEPT_HOPS = "SELECT v AS total FROM s [ROWS 1 PARTITION BY w] HOP BY 500 MICROSECONDS"
SILENT_HOPS = "SELECT v AS total FROM s [RANGE 1000 MICROSECONDS] WHERE v > 99 HOP BY 500 MICROSECONDS"
SILENT = "SELECT SUM(v) AS total FROM s [ROWS 10 SLIDE 1] WHERE v > 99 GROUP BY k"


def rows(count: int) -> pa.Table:
    """Return rows in which key 0 never comes again after the beginning, and new keys come all the time; few by w."""
    keys = np.arange(count) // 3
    keys[0] = 0
    keys[1:] += 1
    few = np.where(keys > 0, np.arange(count) % 5, -1)
    return pa.table({"ts": np.arange(count), "k": keys, "w": few, "v": np.arange(count) % 7})


def run_to(count: int, first: str, second: str, method: str) -> Run:
    run = ms.Engine().stream("s", rows(count), time="ts").query(first).start(paused=True, batch=1000)
    assert isinstance(run, Run)
    run.advance(1500).change(second, method, allow_schema_change=True)
    return run.advance(count)


def held(run: Run) -> tuple[int, int]:
    """Return how many rows wait or are held by versions before the newest, and how much there is to write down."""
    host = run._running.host
    (bucket,) = host.buckets
    older = sum(v.run.size().tuples for n, v in bucket._versions.open.items() if n != host.merger.version)
    older += sum(v.intake.waiting for v in bucket._versions.open.values())
    versions = [v.run.remember() for v in bucket._versions.open.values()]
    return older, len(json.dumps([host.merger.to_plain()[0], *versions]))


@pytest.mark.parametrize(
    ("first", "second", "method"),
    few_quick(
        [
            (PER_KEY, ROWS.format(5), "drain"),
            (PER_KEY, ROWS.format(5), "immediate"),
            (PER_KEY, ROWS.format(5), "delayed-drain"),
            (PER_KEY, OTHER, "graceful-immediate"),
            (PER_KEY, OTHER, "graceful-drain"),
            (ROWS.format(50), SILENT, "graceful-drain"),
            (ROWS.format(50), SILENT, "graceful-immediate"),
            (ROWS.format(50), ROWS.format(50), "drain"),
            (HOPS, SILENT, "graceful-drain"),
            (HOPS, SILENT_HOPS, "graceful-immediate"),
            (PER_KEY, HOPS, "drain"),
            (PER_KEY, HOPS, "delayed-drain"),
            (KEPT_HOPS, "SELECT SUM(v) AS total FROM s [ROWS 5 SLIDE 500]", "delayed-drain"),
        ],
        2,
    ),
)
def test_nothing_grows_with_the_rows(first: str, second: str, method: str) -> None:
    (few, little), (many, much) = (held(run_to(count, first, second, method)) for count in (10_000, 40_000))
    assert many <= few + 10, "rows held by old versions"
    assert much <= little + 100, "characters written down of the change"


def test_a_draining_version_opens_no_windows() -> None:
    """Keys of the last rows before the position take what their windows lack; later keys are not taken in at all."""
    run = run_to(20_000, PER_KEY, ROWS.format(5), "drain")
    (bucket,) = run._running.host.buckets
    assert bucket._versions.open[1].run.size().tuples <= 3
    assert run.changes()[0]["state"] == "under way"


def test_an_immediate_change_frees_the_old_version() -> None:
    """Behind a window of each key what is lost could be counted for ever: only if that is asked for."""
    run = run_to(5_000, PER_KEY, ROWS.format(5), "immediate")
    assert list(run._running.host.buckets[0]._versions.open) == [2]
    assert (run.changes()[0]["state"], run.changes()[0]["loss"]) == ("finished", None)
    counted = ms.Engine().stream("s", rows(5_000), time="ts").query(PER_KEY).start(paused=True)
    assert isinstance(counted, Run)
    counted.advance(1501).change(ROWS.format(5), "immediate", audit=True)
    assert counted.finish().changes()[0]["loss"] == 1


def test_a_delayed_drain_goes_on_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    take = SlidingRun.take

    def counted(run: SlidingRun, *arguments: object) -> None:
        calls.append(run.version)
        take(run, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(SlidingRun, "take", counted)
    joined = "SELECT a.v AS total FROM s [ROWS 2 PARTITION BY k] a, s [RANGE 1 MICROSECOND] b WHERE a.k = b.k"
    run_to(20_000, joined, "SELECT v AS total FROM s", "delayed-drain")
    assert len(calls) < 4 * 20, "a few for each of twenty micro-batches"


def test_output_is_not_merged_once_nothing_has_to_be() -> None:
    for method in ("immediate", "drain", "graceful-drain", "graceful-immediate", "delayed-drain"):
        run = run_to(5_000, ROWS.format(50), ROWS.format(20), method)
        host = run._running.host
        assert host.merger.quiet, method
        assert host.buckets[0].control.quiet, method
        assert not host.buckets[0]._versions._traced, method
