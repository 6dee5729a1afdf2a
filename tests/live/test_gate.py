"""The gate of adopted queries on a simulated machine: whatever crashes when, each segment leaves once, of one version.

Programs are small windowed counts that behave as Spark's do: a window leaves with the segment after the one that closed
it. What a host keeps of a version (its micro-batch and its state) outlasts everything, as Spark's own log does.
"""

import io
import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from midstream.engine.control.controls import CONTROL
from midstream.engine.world import World
from midstream.live.adopted.gate import DEPLOY, ROLLBACK, Gate
from midstream.live.adopted.gate_log import DONE, OPEN, REFUSED, ROLLED_BACK, SWITCHED, GateLog, VersionEntry
from midstream.live.adopted.journal import Journal, JournalStream
from midstream.live.adopted.progress import Progress
from midstream.live.adopted.request import (
    GRACEFUL,
    IMMEDIATE,
    METHODS,
    MOVING_STATE,
    PARALLEL_TRACK,
    STRATEGIES,
    DeployRequest,
)
from midstream.live.adopted.version_folder import VersionFolder
from midstream.live.control_log import ControlLog
from midstream.model.errors import MidstreamError
from midstream.model.failpoint import reach
from seeds import seeds
from simulation.machine import HOME, Fault, Machine
from simulation.process import Crash

PLACE = HOME / "checkpoint"
WINDOW_US, DELAY_US = 10, 3
HISTORY_US = WINDOW_US + DELAY_US
ROWS = pa.schema([("stream", pa.string()), ("s0", pa.struct([("t", pa.int64()), ("k", pa.int64())]))])
OUT = pa.schema([("w", pa.int64()), ("k", pa.int64()), ("n", pa.int64())])
Rows = list[tuple[int, int]]


class Program:
    """Counts rows by window and key; `wrong` counts one too many in windows after some time."""

    def __init__(self, factor: int = 1, wrong: int | None = None, width_us: int = WINDOW_US) -> None:
        self.factor, self.wrong, self.width_us = factor, wrong, width_us

    def run(self, held: dict[str, Any], rows: Rows) -> tuple[dict[str, Any], list[dict[str, int]]]:
        """Return the state after a segment and what leaves: windows that had closed before it."""
        mark, counts = held.get("mark", -(10**9)), Counter({tuple(k): n for k, n in held.get("counts", [])})
        for t, k in rows:
            if t // self.width_us * self.width_us + self.width_us > mark:
                counts[(t // self.width_us * self.width_us, k)] += 1
        closed = sorted(key for key in counts if key[0] + self.width_us <= mark)
        extra = [0 if self.wrong is None or w < self.wrong else 1 for w, _ in closed]
        out = [
            {"w": w, "k": k, "n": counts.pop((w, k)) * self.factor + e} for (w, k), e in zip(closed, extra, strict=True)
        ]
        return {"mark": max([mark, *(t - DELAY_US for t, _ in rows)]), "counts": list(counts.items())}, out


PROGRAMS = {
    "build": Program(), "rewritten": Program(), "wrong": Program(wrong=0), "twice": Program(2),
    "short": Program(width_us=5), "crashes": Program(), "hangs": Program(), "no build": Program(),
}  # fmt: skip


class SimulatedFleet:
    """Versions that take a micro-batch when it is their turn; what Spark keeps is in `kept`."""

    def __init__(self, world: World, journal: Journal, kept: dict[int, tuple[int, str]]) -> None:
        self._world, self._journal, self._kept = world, journal, kept
        self.entries: dict[int, VersionEntry] = {}
        self._folders: dict[int, VersionFolder] = {}
        self.failures: dict[int, str] = {}

    def start(self, entry: VersionEntry) -> None:
        self.entries.setdefault(entry.number, entry)
        if entry.build == "no build":
            self.failures[entry.number] = "it cannot be built"
        if entry.first is not None:
            self.folder(entry.number, entry.first)

    def stop(self, number: int) -> None:
        self.entries.pop(number, None)
        self._folders.pop(number, None)
        self._world.files.remove_folder(self._place(number))

    def folder(self, number: int, first: int) -> VersionFolder:
        if number not in self._folders:
            self._folders[number] = VersionFolder(self._place(number), self._world, self._journal, first)
        return self._folders[number]

    def schema(self, number: int) -> pa.Schema | None:
        return OUT

    def failure(self, number: int) -> str | None:
        return self.failures.get(number)

    def keep_source(self, number: int, source: str) -> None:
        self._world.files.make_folder(self._place(number))
        self._world.put(self._place(number) / "build.py", source.encode())

    def keep_only(self, numbers: set[int]) -> None:
        for name in self._world.files.names(PLACE / "versions"):
            if int(name) not in numbers:
                self._world.files.remove_folder(PLACE / "versions" / name)

    def turn(self, number: int) -> None:
        """Let a version take its next micro-batch, if it was given a segment."""
        if number not in self._folders or number in self.failures or number not in self.entries:
            return
        folder, build = self._folders[number], self.entries[number].build
        folder.feed()
        batch, held = self._kept.get(number, (0, "{}"))
        if build == "hangs" or folder.first + batch > folder.fed:
            return
        segment = folder.begin(batch)
        if build == "crashes" and batch == 3:
            self.failures[number] = "it crashed"
            return
        rows = rows_of(self._world.files.read(folder.input / f"{segment:08d}.parquet"))
        state, out = PROGRAMS[build].run(json.loads(held), rows)
        folder.answer(segment, pa.Table.from_pylist(out, schema=OUT))
        self._kept[number] = batch + 1, json.dumps(state)

    def _place(self, number: int) -> Path:
        return PLACE / "versions" / f"{number:04d}"


def rows_of(data: bytes) -> Rows:
    return [(row["s0"]["t"], row["s0"]["k"]) for row in pq.read_table(io.BytesIO(data)).to_pylist()]


def table_of(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist([{"stream": "s", "s0": {"t": t, "k": k}} for t, k in rows], schema=ROWS)


class Life:
    """One query from its first row to its last, through crashes, with what users ask for on the way."""

    def __init__(
        self, seed: object, asked: list[tuple[int, DeployRequest | str]], faults: list[Fault], keep: int | None
    ):
        self.rnd = random.Random(f"gate {seed}")
        self.machine = Machine(f"gate {seed}", faults)
        self.batches = self._draw()
        self.asked, self.keep = asked, keep
        self.sent = 0
        self.kept: dict[int, tuple[int, str]] = {}
        self.out: dict[int, list[dict[str, int]]] = {}
        self.inputs: dict[int, Rows] = {}
        """What was in each segment."""
        self.firsts: dict[int, int] = {}
        self.events: list[dict[str, Any]] = []
        self.crashes = 0

    def _draw(self) -> list[Rows]:
        time, batches = 0, []
        for _ in range(60):
            time += self.rnd.randrange(1, 6)
            batches.append([(max(0, time - self.rnd.randrange(DELAY_US)), self.rnd.randrange(3)) for _ in range(3)])
        return batches

    def live(self) -> "Life":
        while True:
            process = self.machine.process(f"driver {self.crashes}")
            try:
                self._drive(process.world)
                return self
            except Crash:
                self.crashes += 1

    def _drive(self, world: World) -> None:
        world.files.make_folder(PLACE)
        journal = Journal(PLACE / "journal", world, [JournalStream("s", "t")])
        controls = ControlLog(PLACE / "control", world)
        fleet = SimulatedFleet(world, journal, self.kept)
        gate = Gate(world, GateLog(PLACE, world), controls, journal, fleet, self._publish, self._note, self.keep)
        gate.begin("build")
        progress = Progress(gate, world)
        for _ in range(3000):
            self._ask(controls, journal)
            done = max(journal.head(journal.last).batch + 1 if journal.last else 0, 0)
            # As on Spark, there are fewer segments while a version catches up.
            under_way = gate.state.deployment is not None and gate.state.deployment.state in OPEN
            share = 0.2 if under_way else 0.7
            if done < len(self.batches) and (not journal.last or gate.lag() < 2) and self.rnd.random() < share:
                journal.append(table_of(self.batches[done]), done)
            elif done >= len(self.batches) and (not journal.ticked or gate.waits_for_rows):
                journal.tick()
            for segment in range(journal.first, journal.last + 1):
                if segment not in self.inputs:
                    self.inputs[segment] = rows_of(world.files.read(journal.file(segment)))
            for number in list(fleet.entries):
                if self.rnd.random() < 0.8:
                    fleet.turn(number)
            gate.step()
            progress.look()
            said = json.loads(json.dumps(progress.to_dict())).get("deployment") or {}
            assert 0 <= said.get("caught_up", 0) <= 1
            assert (said.get("ends_in_s") or 0) >= 0
            assert 0 <= progress.pace_s() <= 30
            for entry in gate.state.versions:
                if entry.first is not None:
                    self.firsts[entry.number] = entry.first
            if gate.failure is not None:
                raise AssertionError(gate.failure)
            world.clock.pause(0.5)
            deployment = gate.state.deployment
            over = deployment is None or deployment.state not in OPEN
            if done >= len(self.batches) and journal.ticked and gate.idle and over and self.sent == len(self.asked):
                self.state = gate.state
                return
        raise AssertionError(f"it does not end: {gate.state}")

    def _ask(self, controls: ControlLog, journal: Journal) -> None:
        if self.sent < len(self.asked) and journal.last >= self.asked[self.sent][0]:
            asked = self.asked[self.sent][1]
            once = f"ask{self.sent}"
            if isinstance(asked, str):
                controls.send(CONTROL, control=asked, once=once)
            else:
                controls.send(CONTROL, control=DEPLOY, deployment=asked.to_dict(), once=once)
            self.sent += 1

    def _publish(self, rows: pa.Table, segment: int) -> None:
        found = rows.to_pylist()
        assert self.out.setdefault(segment, found) == found, "a segment left twice, and differently"
        assert segment == max(self.out), "out of order"
        reach("published")

    def _note(self, what: str, more: dict[str, Any]) -> None:
        self.events.append({"event": what, **more})

    @property
    def last(self) -> dict[str, Any]:
        return [e for e in self.events if e["event"] == "deployment"][-1]

    def answers(self, build: str, first: int) -> dict[int, list[dict[str, int]]]:
        """Return what a program answers to each segment when it begins with one."""
        held: dict[str, Any] = {}
        found = {}
        for segment in range(first, max(self.inputs) + 1):
            held, found[segment] = PROGRAMS[build].run(held, self.inputs[segment])
            held = json.loads(json.dumps(held))
        return found

    def check(self, builds: dict[int, str]) -> None:
        """Compare what has left with what each version answers in its turns."""
        assert sorted(self.out) == list(range(1, max(self.inputs) + 1))
        answers = {number: self.answers(builds[number], first) for number, first in self.firsts.items()}
        for segment, rows in self.out.items():
            assert rows == answers[self.state.version_at(segment)][segment], segment


def faults_of(seed: object, count: int) -> list[Fault]:
    rnd = random.Random(f"faults {seed}")
    return [Fault(rnd.randrange(20, 4000), rnd.choice(["kill", "kill", "power cut"])) for _ in range(count)]


def asked_for(build: str, change: bool = False, how: str | None = None, **more: Any) -> DeployRequest:
    plain = {"how": how or (IMMEDIATE if change else STRATEGIES[0]), "grace_us": 3_000_000, "timeout_us": 40_000_000}
    return DeployRequest(build, change, **{**plain, **more})


@pytest.mark.parametrize("seed", seeds(0, 240, quick=4))
def test_a_migration_changes_nothing(seed: int) -> None:
    rnd = random.Random(f"migration {seed}")
    how = rnd.choice(STRATEGIES)
    history = HISTORY_US if how == PARALLEL_TRACK else rnd.choice([None, HISTORY_US, HISTORY_US + 5])
    verify = "no" if how == MOVING_STATE else rnd.choice(["no", "refuse", "report"])
    request = asked_for("rewritten", how=how, history_us=history, verify=verify, segments=rnd.choice([1, 4]))
    asked: list[tuple[int, DeployRequest | str]] = [(rnd.randrange(6, 25), request)]
    back = rnd.random() < 0.3
    if back:
        asked.append((asked[0][0] + rnd.randrange(8), ROLLBACK))
    keep = rnd.choice([None, HISTORY_US + 5])
    life = Life(seed, asked, faults_of(seed, rnd.choice([0, 1, 3, 6])), keep).live()
    assert life.last["state"] in ({DONE, ROLLED_BACK} if back else {DONE}), life.last
    # The same as if version 1 had answered all of it.
    expected = life.answers("build", 1)
    assert life.out == {segment: expected[segment] for segment in life.out}
    assert sorted(life.out) == list(range(1, max(life.inputs) + 1))


@pytest.mark.parametrize("seed", seeds(0, 120, quick=3))
def test_a_change_happens_at_one_position(seed: int) -> None:
    rnd = random.Random(f"change {seed}")
    build, how = rnd.choice(["twice", "short"]), rnd.choice(METHODS)
    history = None if how == GRACEFUL else rnd.choice([None, HISTORY_US])
    request = asked_for(build, True, how, history_us=history)
    life = Life(seed, [(rnd.randrange(6, 25), request)], faults_of(seed, rnd.choice([0, 2, 5])), None).live()
    assert life.last["state"] == DONE, life.last
    life.check({1: "build", 2: build})
    position = life.last["position"]
    if history is None:
        assert life.firsts[2] == life.last["seen"] + 1
    if how == GRACEFUL:
        assert life.out[position + 1], "the first answer of the new version"
        assert not any(life.answers(build, life.firsts[2])[s] for s in range(life.firsts[2], position + 1))
    elif history is None:
        assert position == life.last["seen"]


@pytest.mark.parametrize("build", ["crashes", "hangs", "no build", "wrong"])
@pytest.mark.parametrize("seed", seeds(0, 16, quick=1))
def test_a_version_that_is_no_good_changes_nothing(build: str, seed: int) -> None:
    request = asked_for(build, verify="refuse", segments=1 if build == "wrong" else 3)
    life = Life(f"{build} {seed}", [(8, request)], faults_of(seed, 2), None).live()
    assert life.last["state"] == (REFUSED if build == "wrong" else ROLLED_BACK), life.last
    words = {"crashes": "crashed", "hangs": "no further", "no build": "cannot be built", "wrong": "differs: at segment"}
    assert words[build] in life.last["reason"]
    expected = life.answers("build", 1)
    assert life.out == {segment: expected[segment] for segment in life.out}


def test_a_report_only_tells() -> None:
    life = Life("report", [(8, asked_for("wrong", verify="report", segments=2))], [], None).live()
    assert life.last["state"] == DONE
    assert life.last["differing"] > 0
    assert "rows are extra" in life.last["difference"]
    life.check({1: "build", 2: "wrong"})


def test_back_after_the_switch_the_old_version_answers_again() -> None:
    long = replace(asked_for("twice", True), grace_us=10**12)
    life = Life("back", [(8, long), (20, ROLLBACK)], [], None).live()
    assert life.last["state"] == ROLLED_BACK
    assert life.last["position"] is not None
    life.check({1: "build", 2: "twice"})
    assert [version for version, _ in life.state.turns] == [1, 2, 1]


def test_a_version_that_fails_in_its_grace_is_taken_back() -> None:
    long = replace(asked_for("crashes", True), grace_us=10**12)
    life = Life("fails later", [(8, long)], [], None).live()
    assert life.last["state"] == ROLLED_BACK
    life.check({1: "build", 2: "crashes"})


def test_one_at_a_time_and_no_more_than_there_is() -> None:
    asks: list[tuple[int, DeployRequest | str]] = [(6, ROLLBACK), (8, asked_for("hangs")), (9, asked_for("twice"))]
    life = Life("two", asks, [], None).live()
    said = [e for e in life.events if e.get("state") == REFUSED]
    assert [("no version to go back to" in e["reason"], "roll it back first" in e["reason"]) for e in said] == [
        (True, False),
        (False, True),
    ]


def test_what_makes_no_sense_is_refused_by_name() -> None:
    for given, word in (
        ({"how": "drain", "change": True}, "out of sight"),
        ({"how": "sideways"}, "sideways"),
        ({"verify": "perhaps"}, "perhaps"),
        ({"verify": "refuse", "change": True, "how": IMMEDIATE}, "report"),
        ({"verify": "refuse", "how": MOVING_STATE}, "nothing to compare"),
        ({"segments": 0}, "segments"),
        ({"history_us": 5, "change": True, "how": GRACEFUL}, "no history"),
    ):
        with pytest.raises(MidstreamError, match=word):
            DeployRequest("build", **given)
    assert SWITCHED in OPEN
