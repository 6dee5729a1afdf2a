"""Events are there once, however many runs know of what has happened."""

from pathlib import Path
from typing import Any

import pytest
from engine.live_host import HostedRun, batches_of, two_streams

from midstream.live.events import EventLog
from midstream.local.disk import THIS_MACHINE


def test_a_run_that_begins_does_not_note_again_what_is_over(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    change = {"event": "change", "identity": "a"}
    EventLog(file, THIS_MACHINE).add({**change, "batch": 3, "state": "under way"})
    EventLog(file, THIS_MACHINE).add({**change, "batch": 5, "state": "finished"})
    again = EventLog(file, THIS_MACHINE)
    again.add({**change, "batch": 7, "state": "finished"})
    again.add({**change, "identity": "b", "batch": 7, "state": "finished"})
    assert [(e["identity"], e["batch"], e["state"]) for e in again.all()] == [
        ("a", 3, "under way"), ("a", 5, "finished"), ("b", 7, "finished"),
    ]  # fmt: skip


def test_each_stream_that_falls_silent_is_in_the_events(tmp_path: Path) -> None:
    events = EventLog(tmp_path / "events.jsonl", THIS_MACHINE)
    for stream in "aba":
        events.add({"event": "stream is silent", "batch": 4, "stream": stream})
    assert [e["stream"] for e in events.all()] == ["a", "b"]


def test_all_events_of_a_micro_batch_are_found_by_the_run_that_runs_it_again(tmp_path: Path) -> None:
    """However small files are: another one is begun with the next micro-batch."""
    file, few = tmp_path / "events.jsonl", 500
    asked = [{"event": "change asked", "id": f"{n}", "batch": 2} for n in range(40)]
    for _ in range(3):
        log = EventLog(file, THIS_MACHINE, few)
        log.add({"event": "started"})
        for event in asked:
            log.add(event)
    assert sum(e["event"] == "change asked" for e in log.all()) == len(asked)
    for batch in range(3, 20):
        log.add({"event": "statistics", "batch": batch, "more": "x" * 200})
    assert len(log.all()) < 10


def test_who_has_waited_for_a_migration_or_a_change_finds_it_in_the_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = """
        SELECT x.v FROM a [RANGE 5 SECONDS] x, a [RANGE 5 SECONDS] y, b [RANGE 5 SECONDS] z
        WHERE x.k = y.k AND y.k = z.k
    """
    run = HostedRun(sql, two_streams(), tmp_path, {})
    seen = set()

    def look(self: EventLog, event: dict[str, Any]) -> None:
        """Another thread that waits, and looks at the worst of moments: before something is written."""
        found = {(e["event"], e.get("id", e.get("identity"))) for e in self.all()}
        for record in run.migrations():
            assert {("migrate", record["identity"]), ("migration", record["identity"])} <= found
            seen.add("migration")
        for record in run.changes():
            assert {("change asked", record["identity"]), ("change", record["identity"])} <= found
            seen.add("change")
        add(self, event)

    add = EventLog.add
    monkeypatch.setattr(EventLog, "add", look)
    ticks = batches_of(1, 0, 40)
    for _ in range(6):
        run.tick(next(ticks))
    run.migrate("(x (y z))", "moving-state")
    run.tick(next(ticks))
    run.change(sql.replace("5 SECONDS", "2 SECONDS"), "immediate")
    for rows in ticks:
        run.tick(rows)
    assert seen == {"migration", "change"}
    run.end()
