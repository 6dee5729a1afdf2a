"""Events are there once, however many runs hear of what has happened."""

from pathlib import Path

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
