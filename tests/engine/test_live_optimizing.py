"""A live query that looks after its plan: decisions are durable, remembered by the next run, and change no row."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from engine.live_host import HostedRun
from engine.memory_store import MemoryStore

import midstream as ms
from midstream.app.advise import advise_command
from midstream.engine.planning.optimizing import ADVISE, Optimizing
from midstream.live.control_log import ControlLog
from midstream.live.mapped import MappedMemory
from midstream.model.errors import MidstreamError
from midstream.model.stream import StreamSchema
from oracle.optimized import RESTLESS
from seeds import seeds

SQL = (
    "SELECT a.v AS a, b.v AS b, c.v AS c, d.v AS d FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS], c [RANGE 2 SECONDS], "
    "d [RANGE 2 SECONDS] WHERE a.k = b.k AND b.k = c.k AND c.k = d.k"
)
NAMES = "abcd"
EAGER = replace(RESTLESS, gain=0.9)


def schemas() -> list[StreamSchema]:
    columns = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
    return [StreamSchema(name, columns, "ts") for name in NAMES]


def rows(seed: int, batch: int) -> dict[str, pa.Table]:
    """Return the rows of half a second; which stream has few partners changes every ten."""
    out = {}
    for place, name in enumerate(NAMES):
        rnd = np.random.default_rng((seed, batch, place))
        times = np.sort(batch * 500_000 + rnd.integers(0, 500_000, 12))
        keys = rnd.integers(0, 6, 12)
        if place == (batch // 10) % 4:
            keys = np.where(rnd.random(12) < 0.8, 100 + keys, keys)
        out[name] = pa.table({"ts": times, "k": keys, "v": batch * 100 + np.arange(12)})
    return out


def expected(seed: int, batches: int) -> list[tuple[Any, ...]]:
    """Return the results in process, with one plan all the time."""
    engine = ms.Engine()
    for name in NAMES:
        engine.stream(name, pa.concat_tables([rows(seed, n)[name] for n in range(batches)]), time="ts")
    table = engine.query(SQL, plan="(((a b) c) d)").start().table()
    assert table.num_rows
    return sorted(tuple(row.values()) for row in table.select(list(NAMES)).to_pylist())


class Runs:
    """Runs of one query, one after the other, over one checkpoint."""

    def __init__(self, folder: Path, seed: int, optimizing: Optimizing, buckets: int = 1) -> None:
        self.folder, self.seed, self.optimizing, self.buckets = folder, seed, optimizing, buckets
        self.stores: dict[int, Any] = {}
        self.done = 0

    def start(self, optimizing: Optimizing | None = None) -> HostedRun:
        memories = {k: MappedMemory(self.folder / "memory" / str(k)) for k in range(self.buckets)}
        return HostedRun(
            SQL, schemas(), self.folder, self.stores, self.buckets, make_store=lambda label: MemoryStore(),
            memories=memories, optimize=optimizing or self.optimizing,
        )  # fmt: skip

    def tick(self, run: HostedRun, count: int) -> None:
        for _ in range(count):
            assert run.tick(rows(self.seed, self.done))
            self.done += 1

    def drain(self, run: HostedRun) -> list[tuple[Any, ...]]:
        run.ask_to_end(drain=True)
        run.tick({})
        run.end()
        return sorted(
            tuple(row[name] for name in NAMES)
            for file in sorted((self.folder / "out").glob("*.parquet"))
            for row in pa.parquet.read_table(file).to_pylist()
        )


@pytest.mark.parametrize("seed", seeds(0, 24, quick=1))
def test_it_decides_and_goes_on_after_restarts(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(seed)
    runs = Runs(tmp_path, seed, rnd.choice([EAGER, RESTLESS]), rnd.choice([1, 2]))
    run, told = runs.start(rnd.choice([None, Optimizing()])), 0
    for _ in range(3):
        runs.tick(run, rnd.randint(6, 14))
        made = run.decisions()
        assert [d["when"] for d in made][:told] == [d["when"] for d in made][: min(told, len(made))]
        told = max(told, len(made))
        if rnd.random() < 0.7:  # killed: nobody says that it ends
            run.open = False
            run._checkpoint.release()
            run = runs.start()
    assert runs.drain(run) == expected(seed, runs.done)
    decided = [e for e in run.events() if e["event"] == "decision"]
    assert {d["identity"] for d in run.decisions() if d["identity"]} <= {e["identity"] for e in decided}


@pytest.mark.slow
def test_plans_do_change_and_decisions_are_measured(tmp_path: Path) -> None:
    runs = Runs(tmp_path, 1, RESTLESS)
    run = runs.start()
    runs.tick(run, 44)
    made = run.decisions()
    assert len(made) >= 2
    assert any("after" in d["measured"] for d in made)
    done = {m["identity"]: m["state"] for m in run.migrations()}
    assert all(done[d["identity"]] in ("finished", "superseded", "running", "no-op") for d in made[:-1])
    assert run.status()["decisions"] == made[-4:]
    assert runs.drain(run) == expected(1, runs.done)


def test_what_was_decided_and_not_asked_for_is_asked_for_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, send = Runs(tmp_path, 2, EAGER), ControlLog.send

    def lost(self: ControlLog, do: str, *, identity: str | None = None, **more: Any) -> str:
        if identity is not None and identity.endswith("-decision"):
            raise OSError("the disk is full")
        return send(self, do, identity=identity, **more)

    run = runs.start()
    monkeypatch.setattr(ControlLog, "send", lost)
    with pytest.raises(OSError, match="full"):
        runs.tick(run, 40)
    monkeypatch.setattr(ControlLog, "send", send)
    run.open = False
    run._checkpoint.release()
    (decision,) = json.loads((tmp_path / "checkpoint" / "decisions.json").read_text())["decisions"]
    run = runs.start()
    assert ControlLog(tmp_path / "checkpoint" / "control").has(decision["identity"])
    run.end()


def test_advice_is_written_down_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = Runs(tmp_path, 3, replace(EAGER, mode=ADVISE))
    run = runs.start()
    runs.tick(run, 30)
    made = run.decisions()
    assert {d["state"] for d in made} == {"advised"}
    assert not run.migrations()
    run.end()
    advise_command(tmp_path / "checkpoint")
    said = capsys.readouterr().out
    assert f"to take it: midstream migrate {tmp_path}/checkpoint '{made[-1]['to']}' --strategy" in said
    advise_command(tmp_path / "checkpoint", as_json=True)
    assert json.loads(capsys.readouterr().out) == made


def test_bad_places_are_named(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("{}")
    with pytest.raises(MidstreamError, match="no report that has decisions"):
        advise_command(tmp_path / "report.json")
    with pytest.raises(MidstreamError, match="not the checkpoint of a query"):
        advise_command(tmp_path)
    with pytest.raises(MidstreamError, match="cannot read"):
        advise_command(tmp_path / "none.json")
