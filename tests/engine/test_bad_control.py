"""Control rows that are none, or ask for what cannot be: each is named in the events and skipped, the query goes on."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from engine.live_host import HostedRun, some_rows, two_streams

from midstream.engine.control.controls import CHANGE, CONTROL, DRAIN, ELEMENT, MET, MIGRATE, SNAPSHOT, control_row
from midstream.live import retention
from midstream.live.control_log import ControlLog, number_of
from midstream.live.reading import read

JOIN = "SELECT a.k, a.v, b.v AS w FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k"
GOOD = {"sql": "SELECT k FROM a", "method": "immediate"}

STRAYS: dict[str, Any] = {
    "no document": b"stop",
    "empty": b"",
    "zeros": bytes(100),
    "a list": [1],
    "a number": 7,
    "not UTF-8": b'{"id": "\xff", "do": "stop"}',
    "nested too deeply": b"[" * 100_000,
    "cut short": b'{"id": "%s", "do": "st',
    "no id": {"do": "stop"},
    "id is a number": {"id": 5, "do": "stop"},
    "nothing to do": {"id": "%s"},
    "do is a list": {"id": "%s", "do": ["stop"]},
    "unknown": {"id": "%s", "do": "explode"},
    "of a newer release": {"id": "%s", "do": "stop", "format": 2},
    "format is text": {"id": "%s", "do": "stop", "format": "1"},
    "stop a run that is text": {"id": "%s", "do": "stop", "run": "1"},
    "drain a run that is a list": {"id": "%s", "do": DRAIN, "run": []},
    "change to nothing": {"id": "%s", "do": CHANGE},
    "change to text": {"id": "%s", "do": CHANGE, "change": "SELECT k FROM a", "version": 2},
    "change without a version": {"id": "%s", "do": CHANGE, "change": GOOD},
    "change to a version that is not there": {"id": "%s", "do": CHANGE, "change": GOOD, "version": 77},
    "change to version 0": {"id": "%s", "do": CHANGE, "change": GOOD, "version": 0},
    "change to version -1": {"id": "%s", "do": CHANGE, "change": GOOD, "version": -1},
    "change to version true": {"id": "%s", "do": CHANGE, "change": GOOD, "version": True},
    "change by an unknown method": {"id": "%s", "do": CHANGE, "change": {**GOOD, "method": "x"}, "version": 1},
    "change with an unknown option": {"id": "%s", "do": CHANGE, "change": {**GOOD, "x": 1}, "version": 1},
    "change to the version that runs": {"id": "%s", "do": CHANGE, "change": GOOD, "version": 1},
    "change without a query": {"id": "%s", "do": CHANGE, "change": {}, "version": 1},
    "migrate to nothing": {"id": "%s", "do": MIGRATE},
    "migrate to a list": {"id": "%s", "do": MIGRATE, "migration": ["(b a)"]},
    "migrate of a version that is text": {"id": "%s", "do": MIGRATE, "migration": {"plan": "(b a)"}, "version": "1"},
    "migrate to a plan that is text": {"id": "%s", "do": MIGRATE, "migration": {"plan": "(b a)"}, "plan": "(b a)"},
    "control of nothing": {"id": "%s", "do": CONTROL},
    "control of a number": {"id": "%s", "do": CONTROL, "control": 5},
    "an unknown control": {"id": "%s", "do": CONTROL, "control": "explode"},
    "an element of nothing": {"id": "%s", "do": ELEMENT},
    "an unknown element": {"id": "%s", "do": ELEMENT, "kind": "x", "version": 1, "at_us": 5},
    "an element of no version": {"id": "%s", "do": ELEMENT, "kind": "ISTOP", "version": 9, "at_us": 5},
    "an element at no time": {"id": "%s", "do": ELEMENT, "kind": "ISTOP", "version": 1, "at_us": "now"},
    "an element at NaN": b'{"id": "%s", "do": "element", "kind": "ISTOP", "version": 1, "at_us": NaN}',
    "met by nobody": {"id": "%s", "do": MET},
    "met by a number": {"id": "%s", "do": MET, "of": 5},
    "a snapshot at half past": {"id": "%s", "do": SNAPSHOT, "at_us": 0.5},
}


def data_of(row: Any, identity: str) -> bytes:
    data = row if isinstance(row, bytes) else json.dumps(row).encode()
    return data.replace(b"%s", identity.encode())


def test_control_rows_that_are_none_are_named_and_skipped(tmp_path: Path) -> None:
    """All of them together, so that it takes no time: results are those of a query that nobody has asked anything."""
    good, spoiled = [HostedRun(JOIN, two_streams(), tmp_path / name, {}, 2) for name in ("good", "spoiled")]
    rows = list(STRAYS.values())
    for batch in range(8):
        for k, row in enumerate(rows[batch::8]):
            identity = f"{batch:010d}{k:010d}-stray"
            folder = tmp_path / "spoiled" / "checkpoint" / "control"
            (folder / f"{identity}.json").write_bytes(data_of(row, identity))
        for run in (good, spoiled):
            assert run.tick(some_rows(1, batch))
    assert read(tmp_path / "spoiled" / "out").equals(read(tmp_path / "good" / "out"))
    named = [event for event in spoiled.events() if event["event"] == "no control row"]
    asked = [event for event in spoiled.events() if event["event"] in ("change", "control", "change asked")]
    assert not asked
    silent = sum(not data_of(row, "").strip() for row in rows)
    refused = [event for event in spoiled.events() if event["event"] == "migration"]
    assert len(named) + silent + len(refused) == len(rows)
    for run in (good, spoiled):
        run.end()


def test_what_cannot_be_read_is_named_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "EVERY", 2)
    run = HostedRun(JOIN, two_streams(), tmp_path, {}, 1)
    control = tmp_path / "checkpoint" / "control"
    (control / "zzz.json").mkdir()
    (control / "gone.json").symlink_to("/nonexistent")
    os.mkfifo(control / "pipe.json")
    for batch in range(8):
        run.snapshot()
        assert run.tick(some_rows(1, batch))
    named = [event["id"] for event in run.events() if event["event"] == "no control row"]
    assert named == ["pipe.json: cannot be read", "zzz.json: cannot be read"]
    assert (control / "zzz.json").is_dir()
    assert len(run._checkpoint.controls.rows()) == len(run._checkpoint.controls.ids()) - 3
    run.end()


@pytest.mark.parametrize("name", ["²" * 20 + "-x", "٣" * 20 + "-x", "9" * 20 + "-x", "9223372036854775807-x"])
def test_names_that_are_no_ids_do_not_move_those_that_come(tmp_path: Path, name: str) -> None:
    log = ControlLog(tmp_path)
    log.make()
    (tmp_path / f"{name}.json").write_text("{}")
    sent = [log.send(SNAPSHOT) for _ in range(3)]
    assert sent == sorted(sent)
    assert len({number_of(identity) for identity in sent}) == 3


@pytest.mark.parametrize("name", ["²", "٣", "0", "0000", "0001", "5", "9" * 20, "99999999999"])
def test_strays_among_versions_are_nobodys(tmp_path: Path, name: str) -> None:
    run = HostedRun(JOIN, two_streams(), tmp_path, {}, 1)
    assert run.tick(some_rows(1, 0))
    for ending in ("txt", "version", "removed") if name == "0001" else ("txt", "version", "over", "removed"):
        (tmp_path / "checkpoint" / "versions" / f"{name}.{ending}").write_text("x")
    mergers = tmp_path / "checkpoint" / "versions" / "mergers"
    mergers.mkdir(exist_ok=True)
    (mergers / f"{name}.json").write_text("x")
    if name not in ("0000", "0001"):
        for ending in ("begun", "json"):
            (tmp_path / "checkpoint" / "runs" / f"{name}.{ending}").write_text("x")
    identity = run.change(JOIN.replace("a [RANGE 2", "a [RANGE 1"), "immediate")
    for batch in range(1, 7):
        assert run.tick(some_rows(1, batch))
    assert [c["state"] for c in run.changes() if c["identity"] == identity] == ["finished"]
    run.end()
    HostedRun(JOIN, two_streams(), tmp_path, run.stores, 1).end()


def test_very_many_strays_are_counted(tmp_path: Path) -> None:
    run = HostedRun(JOIN, two_streams(), tmp_path, {}, 1)
    (tmp_path / "checkpoint" / "control" / "log.json").write_text("\n".join(f"line {n}" for n in range(3000)))
    for batch in range(2):
        assert run.tick(some_rows(1, batch))
    named = [event["event"] for event in run.events() if "no control row" in event["event"]]
    assert named == ["no control row"] * 20 + ["more that are no control rows"]
    assert [event["count"] for event in run.events() if event["event"].startswith("more")] == [2980]
    run.end()


@pytest.mark.parametrize("name", STRAYS)
def test_reading_a_stray_brings_no_traceback(name: str) -> None:
    row = control_row(data_of(STRAYS[name], "7"))
    assert row is None or row["id"] == "7"
