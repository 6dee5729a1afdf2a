"""Kill scripts: a query, its rows, what is asked of it on its way, and where its processes are killed. Drawn by a seed.

seed ──▶ streams cut into files, query, sink, changes and migrations, faults
what the events say of positions ──▶ what must come out, computed in process over the same rows
"""

import json
import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import midstream as ms

ROWS = 30
"""Rows of a stream in a file, which is a micro-batch."""
METHODS = ["immediate", "delayed-drain", "drain/query", "drain/stream", "graceful-immediate", "graceful-drain"]
STRATEGIES = ["moving-state", "parallel-track", "hybrid", "just-in-time"]
JOIN = """SELECT a.v AS va, b.v AS vb, c.v AS vc FROM a [RANGE 4 SECONDS], b [RANGE 3 SECONDS], c [RANGE 2 SECONDS]
WHERE a.k = b.k AND b.k = c.k"""
COUNTS = "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM a [RANGE {} SECONDS SLIDE 500 MILLISECONDS]{} GROUP BY k"
DIFFERENCE = """SELECT k FROM a [RANGE 200 MILLISECONDS] EXCEPT SELECT k FROM b [ROWS 9]
EXCEPT SELECT k FROM b [RANGE 20 MILLISECONDS] c WHERE v % 2 = 0"""
HOPS = """(SELECT a.k, a.v % 3 AS w FROM a [RANGE 4 SECONDS], b [ROWS 3 PARTITION BY k] WHERE a.k = b.k AND b.v % 2 = 0)
EXCEPT ALL (SELECT k, v % 3 AS w FROM c [RANGE 2 SECONDS])
HOP BY {} MILLISECONDS EMIT {}"""
KEPT = """SELECT a.k, COUNT(*) AS n, SUM(b.v) AS total FROM a [RANGE 3 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k
GROUP BY a.k HOP BY {} MILLISECONDS EMIT {}"""
PLANS = ["((a b) c)", "(a (b c))", "((a c) b)"]
FOLDER, ORDERED, FUNCTION, TABLE = "folder", "ordered folder", "function", "table"


@dataclass(frozen=True)
class Kind:
    """A kind of query: its versions, the sinks it can have, what it can be asked."""

    versions: tuple[str, ...]
    sinks: tuple[str, ...]
    plans: tuple[str, ...] = ()
    strategies: tuple[str | None, ...] = (None,)


KINDS = {
    "join": Kind((JOIN, JOIN + " AND a.v % 2 = 0", JOIN + " AND c.v % 3 > 0"), (FOLDER, ORDERED, FUNCTION),
                 tuple(PLANS), tuple(STRATEGIES)),
    "aggregate": Kind((COUNTS.format(4, ""), COUNTS.format(5, " WHERE v % 2 = 0"), COUNTS.format(2, "")),
                      (FOLDER, ORDERED, FUNCTION)),
    "difference": Kind((DIFFERENCE,), (FOLDER, ORDERED), ("((a c) b)", "((a b) c)")),
    "hops complete": Kind((HOPS.format(500, "COMPLETE"),), (FOLDER, FUNCTION),
                          ("modes=delta", "push-down modes=complete", "hop=250ms")),
    "hops delta": Kind((KEPT.format(500, "DELTA"),), (FOLDER, FUNCTION, TABLE),
                       ("modes=delta", "modes=complete", "hop=250ms", "hop=1s")),
    "hops changed": Kind((KEPT.format(500, "DELTA"), KEPT.replace("3 SECONDS", "5 SECONDS").format(250, "DELTA")),
                         (FOLDER, TABLE)),
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """Something that is asked for once so many rows have been read."""

    after_rows: int
    change: str | None = None
    """The method of a change."""
    sql: str | None = None
    plan: str | None = None
    strategy: str | None = None


@dataclass(frozen=True)
class KillScript:
    """One query's life. Streams have unique times each, a little out of order; in one life of three, late rows."""

    seed: int
    kind: str
    sink: str
    files: int
    asked: tuple[Asked, ...] = ()
    faults: tuple[str, ...] = ()
    """As MIDSTREAM_FAILPOINT has them."""
    streams: Mapping[str, pa.Table] = field(default_factory=dict)

    @property
    def first(self) -> str:
        """Return the query that it begins with."""
        return KINDS[self.kind].versions[0]

    @property
    def rows(self) -> int:
        """Return how many rows there are in all."""
        return sum(table.num_rows for table in self.streams.values())

    @property
    def late(self) -> set[tuple[str, int]]:
        """Return the rows that are late: stream and time. Of the other columns those are kept that the query reads."""
        return {
            (name, table.column("ts")[place].as_py())
            for name, table in self.streams.items()
            for place in late_places(self.seed, table.num_rows)
        }

    @property
    def optimized(self) -> bool:
        """Return whether it looks for better plans by itself."""
        return self.kind == "join" and self.seed // len(KINDS) % 2 == 1

    @property
    def hops(self) -> bool:
        """Return whether it answers at hops."""
        return "HOP BY" in self.first

    def write(self, folder: Path, number: int) -> None:
        """Let one more file of each stream appear, whole."""
        for name, table in self.streams.items():
            pending = folder / "in" / f".{name}.pending"
            pq.write_table(table.slice(number * ROWS, ROWS), pending)
            os.utime(pending, (1_000_000_000 + number, 1_000_000_000 + number))
            os.replace(pending, folder / "in" / name / f"{number:05d}.parquet")

    def expected(self, events: list[dict[str, Any]], controls: list[dict[str, Any]]) -> pa.Table:
        """Return what must come out, changes and hops being where the events say; `controls` say what was asked."""
        engine = ms.Engine()
        for name, table in self.streams.items():
            engine.stream(name, table, time="ts", lateness="500 ms")
        run = engine.query(self.first).start(paused=True, batch="10 seconds")
        for position_us, ask in sorted(self._taken(events, controls), key=lambda taken: taken[0]):
            run.advance(position_us)
            if ask.change is not None:
                method, _, order = ask.change.partition("/")
                run.change(ask.sql, method, order or None)
            else:
                run.migrate(ask.plan)
        return run.finish().table()

    def _taken(self, events: list[dict[str, Any]], controls: list[dict[str, Any]]) -> Iterator[tuple[int, Asked]]:
        """Return what has changed the output, and where."""
        changes = {e["identity"]: e for e in events if e["event"] == "change" and "state" in e}
        for record in changes.values():
            ask = next(
                a
                for a in self.asked
                if a.sql is not None and " ".join(a.sql.split()) == " ".join(record["sql"].split())
            )
            if record["position_us"] is not None:
                yield record["position_us"], ask
        plans = {row["id"]: row["migration"]["plan"] for row in controls if row["do"] == "migrate"}
        moved = {e["identity"]: e for e in events if e["event"] == "migration"}
        for record in moved.values() if self.hops else ():
            if record["state"] == "finished" and "hop=" in plans[record["identity"]]:
                yield record["asked_us"], Asked(0, plan=plans[record["identity"]])


DRIVER_POINTS = [
    "checkpoint held", "sink begun", "run begun", "event started", "event started noted", "query started",
    "run announced", "run pending", "midstream.json pending", "catalog pending", "batch begun", "results written",
    "sink written", "batch noted", "status.json pending", "query over", "event stopped", "event stopped noted",
    "end noted", "batch after the end", "event drain", "event drain noted",
    "batch returned",
]  # fmt: skip
"""Points that every driver passes."""
FOLDER_POINTS = ["sink half written", "results appeared"]
UNORDERED_POINTS = ["sink pending"]
LATE_POINTS = ["late pending"]
LATE_ROWS = 5
"""Rows of a stream that are late, in a life that has some."""
LATE_US = 3_000_000
ANSWER_POINTS = ["answer pending", "answer replaced"]
FUNCTION_POINTS = ["function due", "function called"]
DECISION_POINTS = ["decisions pending", "decisions noted"]
CONTROL_POINTS = ["control pending", "control sent"]
CHANGE_POINTS = [
    "version pending", "version added", "event change asked", "event change", "event change noted", "results met",
    "merger pending", "merger noted", "table held back", "version retired", "buckets told", "busy batch noted",
]  # fmt: skip
MIGRATION_POINTS = ["event migrate", "event migration", "event migration noted", "busy batch noted"]
WORKER_POINTS = [
    "rows read", "rows packed", "rows sent", "bucket opened", "bucket done", "head written", "lines sent",
    "state taken", "array copied", "state pending", "state mapped",
]  # fmt: skip
PART_POINTS = ["part pending", "part written"]


def draw(seed: int) -> KillScript:
    """Draw a life."""
    rnd = random.Random(31_000_000 + seed)
    name = list(KINDS)[seed % len(KINDS)]
    kind = KINDS[name]
    files = rnd.randrange(10, 15)
    sink = rnd.choice(kind.sinks)
    script = KillScript(seed, name, sink, files, streams=_streams(seed, kind, files))
    asked = tuple(sorted(_asked(rnd, kind, script.rows), key=lambda a: a.after_rows))
    return KillScript(seed, name, sink, files, asked, tuple(_faults(rnd, script, asked)), script.streams)


def _streams(seed: int, kind: Kind, files: int) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    names = [n for n in "abc" if any(f" {n} [" in sql for sql in kind.versions)]
    streams = {}
    for name in names:
        times = np.sort(rng.choice(files * 1_000_000, files * ROWS, replace=False))
        times = times[np.argsort(times + rng.integers(0, 400_000, len(times)), kind="stable")]
        for place in late_places(seed, len(times)):
            # So far back that the file before has shown it to be late, in whatever micro-batches both are read.
            times[place] = next(t for t in range(times[place] - LATE_US, 0, -1) if t not in times)
        columns = {"k": rng.integers(0, 20, len(times)), "v": np.arange(len(times))}
        streams[name] = pa.table({"ts": times, **columns})
    return streams


def late_places(seed: int, rows: int) -> list[int]:
    """Return which rows of a stream are late: none in the first files, for nothing has been seen there."""
    rng = np.random.default_rng((seed, 1))
    return sorted(rng.choice(np.arange(5 * ROWS, rows), LATE_ROWS, replace=False).tolist()) if seed % 3 == 1 else []


def _asked(rnd: random.Random, kind: Kind, rows: int) -> Iterator[Asked]:
    for sql in kind.versions[1:]:
        if len(kind.versions) == 2 or rnd.random() < 0.6:
            yield Asked(int(rows * rnd.uniform(0.15, 0.6)), change=rnd.choice(METHODS), sql=sql)
    for _ in range(rnd.randrange(3) if kind.plans else 0):
        plan, strategy = rnd.choice(kind.plans), rnd.choice(kind.strategies)
        yield Asked(int(rows * rnd.uniform(0.15, 0.6)), plan=plan, strategy=strategy)


def _faults(rnd: random.Random, script: KillScript, asked: tuple[Asked, ...]) -> Iterator[str]:
    """Draw faults: some in the driver, each of which ends a start, more in the workers, which Spark gets over."""
    driver = list(DRIVER_POINTS)
    if script.sink in (FOLDER, ORDERED) and script.kind != "hops complete":
        driver += FOLDER_POINTS * 3 + UNORDERED_POINTS * (2 if script.sink == FOLDER and not script.hops else 0)
    driver += LATE_POINTS * 3 if late_places(script.seed, script.files * ROWS) else []
    driver += ANSWER_POINTS * 4 if script.sink == TABLE or script.kind == "hops complete" else []
    driver += FUNCTION_POINTS * 3 if script.sink == FUNCTION else []
    driver += CONTROL_POINTS * 2 + CHANGE_POINTS * 2 if any(a.change for a in asked) else []
    driver += CONTROL_POINTS + MIGRATION_POINTS * 2 if any(a.plan for a in asked) else []
    workers = WORKER_POINTS + (PART_POINTS * 2 if "sink pending" in driver else [])
    once = {p for p in DRIVER_POINTS if DRIVER_POINTS.index(p) < 9} | {p for p in driver if p.startswith("event st")}
    once |= {"query over", "end noted", "batch after the end", "event drain", "event drain noted", "version pending"}
    for _ in range(3):
        point = rnd.choice(driver)
        number = 1 if point in once or point.startswith(("event", "version")) else rnd.randrange(1, 5)
        how = rnd.choices(
            ["", "=kill jvm", "=kill jvm after 30", "=kill all", "=stop", "=stop jvm"], [7, 1, 1, 1, 1, 1]
        )[0]
        yield f"{point}:{number}{how}"
    for _ in range(20):
        point = rnd.choice(workers)
        number = rnd.randrange(1, 9)
        how = rnd.choices(
            ["", "=kill daemon", "=kill jvm", "=kill jvm after 20", "=kill driver", "=kill all", "=stop",
             "=stop daemon", "=stop jvm"],
            [12, 5, 1, 1, 1, 1, 1, 1, 0.5],
        )[0]  # fmt: skip
        yield f"{point}:{number}{how}"
    if script.optimized:
        yield f"{DECISION_POINTS[script.seed // len(KINDS) // 2 % 2]}:{rnd.randrange(1, 4)}"
    if "sink pending" in driver and rnd.random() < 0.5:  # what it leaves is removed by the next run
        yield f"sink pending:{rnd.randrange(1, 4)}"
        yield f"pending removed:1{rnd.choice(['', '=kill jvm'])}"


def files_read(place: Path) -> int:
    """Return how many files Spark has planned to read, by its own checkpoint.

    What a query says of rows will not do: those that wait for another version count twice.
    """
    names = set()
    for log in place.glob("sources/*/*"):
        if log.name.partition(".")[0].isdigit():
            names |= {line for line in log.read_text().splitlines() if '"path"' in line and "/in/" in line}
    return len({json.loads(line)["path"] for line in names})


def all_committed(place: Path) -> bool:
    """Return whether every micro-batch that was planned is over."""
    planned, over = ({f.name for f in (place / n).glob("[0-9]*") if f.name.isdigit()} for n in ("offsets", "commits"))
    return planned == over


def describe(script: KillScript) -> str:
    """Return a life in a line."""
    asked = [
        f"{a.change} at {a.after_rows}" if a.change else f"{a.plan} ({a.strategy}) at {a.after_rows}"
        for a in script.asked
    ]
    return json.dumps(
        {"seed": script.seed, "kind": script.kind, "sink": script.sink, "asked": asked, "faults": script.faults}
    )
