"""The kill campaign: drawn queries whose processes are killed at named points, read meanwhile, compared at the end.

    make kills SEEDS=0:20 RESUME=FILE     lives 0 to 19; what FILE has is not run again
    ... kill_campaign.py --table          what it has found: fault x points x runs x found

    seed ──▶ script ──▶ files that appear ──▶ driver, JVM, daemon, workers ──▶ results ◀── reader
                                               ▲ killed, halted, started again

A life is over when its query has read everything and was stopped. Then no row is missing, none is there twice, none
is out of order, and the reader has seen nothing vanish, change or appear in part. A driver that is killed leaves its
JVM to the next one, unless it was halted: that saves most of the time that a start takes.
"""

import argparse
import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
from spark.kill_driver import HELD
from spark.kill_reader import digest
from spark.kill_script import FUNCTION, TABLE, KillScript, describe, draw, files_read

import midstream as ms
from midstream.live.checkpoint import Checkpoint
from midstream.model.failpoint import NOTES, VARIABLE
from midstream.model.relatives import Process, everybody, role

HERE = Path(__file__).parent
STARTS = 14
"""How often a life is begun at most."""
SILENT_S = 900.0
"""A life in which nothing happens for so long hangs."""
TOO_BUSY = "Python worker failed to connect back"
"""Spark gives a worker ten seconds to start."""
OVERTAKEN = ("Concurrent update to the log", "Multiple streaming queries are concurrently using")
"""Of two JVMs that plan the same micro-batch Spark ends one: the newer, where one that was halted goes on first."""
AHEAD = 3
"""Files that are there before they are read."""
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"


class Jvm:
    """A JVM that drivers connect to, one after the other; in the session of this process, as they are."""

    def __init__(self, log: Path) -> None:
        from pyspark.java_gateway import launch_gateway

        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory 1g --driver-java-options '{JAVA}' pyspark-shell"
        with open(log, "ab") as out:
            self.gateway = launch_gateway(None, {"stdout": out, "stderr": out})
        self.pid: int = self.gateway.proc.pid
        connection = self.gateway.gateway_parameters
        self.variables = {"PYSPARK_GATEWAY_PORT": str(connection.port), "PYSPARK_GATEWAY_SECRET": connection.auth_token}

    @property
    def lives(self) -> bool:
        """Return whether it runs, and is not halted."""
        return self.gateway.proc.poll() is None and state_of(self.pid) not in ("T", None)

    def clear(self) -> bool:
        """End what a driver has left in it; return whether it can be used again."""
        try:
            held = self.gateway.jvm.org.apache.spark.SparkContext.getActive()
            if held.isDefined():
                held.get().stop()
            return True
        except Exception:
            return False

    def end(self) -> None:
        """Kill it."""
        with contextlib.suppress(Exception):
            self.gateway.shutdown()
        self.gateway.proc.kill()
        self.gateway.proc.wait()


def state_of(pid: int) -> str | None:
    """Return the state of a process as the system has it, T: halted; None: it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def send(process: Process, number: int = signal.SIGKILL) -> None:
    """Send a signal to a process of this session, if it is still the one that was seen: numbers are given again."""
    now = everybody().get(process.pid)
    if now is not None and now.begun == process.begun:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


@dataclass
class Outcome:
    """What became of a life."""

    seed: int
    done: list[str]
    """Faults that happened."""
    starts: int
    found: list[str]
    seconds: float
    looks: int = 0
    rows: int = 0
    described: str = ""


@dataclass
class Campaign:
    """Runs lives one after the other."""

    folder: Path
    jvm: Jvm | None = None
    reader: Any = None

    def __post_init__(self) -> None:
        command = [sys.executable, str(HERE / "kill_reader.py")]
        self.reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def close(self) -> None:
        self.reader.kill()
        if self.jvm is not None:
            self.jvm.end()
        self.end_others(())

    def end_others(self, kept: tuple[int, ...]) -> None:
        """Kill every process of Spark in this session, but for some."""
        processes = everybody()
        for process in processes.values():
            if role(process, processes.get(process.parent), VARIABLE) is not None and process.pid not in kept:
                send(process)

    def run(self, seed: int, faults: tuple[str, ...] | None = None) -> Outcome:
        script = draw(seed)
        life = Life(self, script, script.faults if faults is None else faults, self.folder / f"life-{seed}")
        began = time.monotonic()
        try:
            found = life.run()
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
            self.end_others(())
            self.jvm = None
        notes = life.folder / "kills"
        done = sorted(note.name for note in notes.iterdir()) if notes.is_dir() else []
        report = self._report()
        found += life.compare(report) if not found else []
        out = Outcome(seed, done, life.starts, found, round(time.monotonic() - began, 1), report["looks"], life.rows)
        out.described = describe(script)
        if not found:
            shutil.rmtree(life.folder, ignore_errors=True)
        return out

    def _report(self) -> dict[str, Any]:
        self.reader.stdin.write("report\n")
        self.reader.stdin.flush()
        report: dict[str, Any] = json.loads(self.reader.stdout.readline())
        return report


class Life:
    """One query from its first start to its end."""

    def __init__(self, campaign: Campaign, script: KillScript, faults: tuple[str, ...], folder: Path) -> None:
        self.campaign, self.script, self.faults, self.folder = campaign, script, faults, folder
        self.starts = self.rows = self.written = 0
        self.halted: list[Process] = []
        self.let_go = 0
        """The start in which those that were halted went on."""
        """Zombies, to go on once the next run has begun."""
        shutil.rmtree(folder, ignore_errors=True)
        for name in script.streams:
            (folder / "in" / name).mkdir(parents=True)
        self.checkpoint = Checkpoint(folder / "checkpoint")

    def run(self) -> list[str]:
        """Start the query until it has come to its end; return what went wrong."""
        self.campaign.reader.stdin.write(f"read {self.folder / 'out'}\n")
        self.campaign.reader.stdin.flush()
        self._grow()
        while self.starts < STARTS:
            self.starts += 1
            process, jvm = self._start()
            code = self._watch(process, jvm)
            if code is None:
                return [f"nothing happened for {SILENT_S:.0f} s in start {self.starts}: {self._last_words()}"]
            self._clear(jvm, code)
            if code == 0:
                return []
            if code == HELD:
                return [f"a query that is dead looks alive in start {self.starts}: {self._last_words()}"]
            if code != -signal.SIGKILL and not self._excused():
                return [f"start {self.starts} ended with {code}: {self._last_words()}"]
        return [f"not over after {STARTS} starts: {self._last_words()}"]

    def _start(self) -> tuple[subprocess.Popen[bytes], Jvm]:
        campaign = self.campaign
        if campaign.jvm is None or not campaign.jvm.lives or not campaign.jvm.clear():
            if campaign.jvm is not None and not self._is_halted(campaign.jvm):
                campaign.jvm.end()
            campaign.jvm = Jvm(self.folder / "spark.log")
        variables = {
            **os.environ,
            **campaign.jvm.variables,
            VARIABLE: ",".join(self.faults),
            NOTES: str(self.folder / "kills"),
        }
        (self.folder / "began").unlink(missing_ok=True)
        command = [sys.executable, str(HERE / "kill_driver.py"), str(self.folder), str(self.script.seed)]
        self.noted = self._notes()
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=variables), campaign.jvm

    def _notes(self) -> int:
        return len(list((self.folder / "kills").glob("*")))

    def _excused(self) -> bool:
        """Return whether a driver may fail: something was killed or let go in this start, or all is too slow."""
        said = self._last_words()
        return (
            self._notes() > self.noted
            or TOO_BUSY in said
            or (self.let_go == self.starts and any(words in said for words in OVERTAKEN))
        )

    def _watch(self, process: subprocess.Popen[bytes], jvm: Jvm) -> int | None:
        """Wait until a driver ends; let files appear, and deal with what is halted. None: nothing happens any more."""
        last, moved = "", time.monotonic()
        while True:
            code = process.poll()
            if code is not None:
                return code
            self._grow()
            status = self._status()
            now = f"{status.get('last_batch')} {self._notes()} {(self.folder / 'began').exists()}"
            if now != last:
                last, moved = now, time.monotonic()
            self._let_zombies_go(status)
            halted = self._halted()
            driver = next((p for p in halted if p.pid == process.pid), None)
            if driver is not None:
                self._check_held(driver)
            elif halted and time.monotonic() - moved > 2:
                self._leave(process, jvm, halted)
            if time.monotonic() - moved > SILENT_S:
                process.kill()
                process.wait()
                return None
            time.sleep(0.1)

    def _is_halted(self, jvm: Jvm) -> bool:
        return jvm.pid in [p.pid for p in self.halted]

    def _halted(self) -> list[Process]:
        """Return what has been halted since the last look."""
        processes = everybody()
        return [
            p
            for p in processes.values()
            if p.pid not in [h.pid for h in self.halted]
            and p.state == "T"
            and role(p, processes.get(p.parent), VARIABLE) is not None
        ]

    def _check_held(self, driver: Process) -> None:
        """A driver that is halted keeps others away; once it is killed it does not. It is killed, or goes on."""
        held = self.checkpoint.taken
        if held and self.checkpoint.known() is not None:
            with contextlib.suppress(ms.MidstreamError):
                self.checkpoint.check_free()
                raise AssertionError("the checkpoint of a halted driver is free")
        if self.script.seed % 2:
            send(driver, signal.SIGCONT)
            return
        send(driver)
        deadline = time.monotonic() + 20
        while self.checkpoint.taken and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not self.checkpoint.taken, "the checkpoint of a killed driver is held"
        assert self.checkpoint.read_status()["state"] != "running", "a killed driver is said to run"

    def _leave(self, process: subprocess.Popen[bytes], jvm: Jvm, halted: list[Process]) -> None:
        """Kill everything but what is halted; it goes on when the next run has begun."""
        self.halted += halted
        process.kill()
        if not self._is_halted(jvm):
            jvm.end()
        self.campaign.end_others(tuple(p.pid for p in self.halted))

    def _let_zombies_go(self, status: dict[str, Any]) -> None:
        """Let what was halted go on, once the new run has begun to write."""
        if self.halted and (self.folder / "began").exists() and status.get("state") == "running":
            self.let_go = self.starts
            for zombie in self.halted:
                send(zombie, signal.SIGCONT)
            time.sleep(1.5)
            for zombie in self.halted:
                if role(zombie, None, VARIABLE) == "jvm":  # its standard input is open: it would live on
                    send(zombie)
            self.halted = []

    def _clear(self, jvm: Jvm, code: int) -> None:
        """End what a driver has left behind."""
        if code == 0 and jvm.lives:
            jvm.clear()
            return
        if not jvm.lives or not jvm.clear():
            if not self._is_halted(jvm):
                jvm.end()
                self.campaign.end_others(tuple(p.pid for p in self.halted))
            self.campaign.jvm = None

    def _grow(self) -> None:
        """Let files appear, a few more than have been read."""
        taken = files_read(self.checkpoint.spark) / len(self.script.streams)
        while self.written < min(self.script.files, taken + AHEAD):
            self.script.write(self.folder, self.written)
            self.written += 1

    def _status(self) -> dict[str, Any]:
        try:
            return self.checkpoint._written_status()
        except (OSError, ValueError):
            return {}

    def _last_words(self) -> str:
        log = self.folder / "log"
        return log.read_text(errors="replace")[-1500:] if log.exists() else ""

    def compare(self, report: dict[str, Any]) -> list[str]:
        """Return how the results differ from those of the run in process, and from what the reader has seen."""
        found = [f"reader: {said}" for said in report["found"]] + self._compare_late()
        events = self.checkpoint.events.all()
        expected = self.script.expected(events, self.checkpoint.controls.rows())
        out = self.folder / "out"
        files = sorted(out.glob("batch-*"))
        there = {
            f.name: digest(feather.read_table(f) if f.suffix == ".arrow" else pq.ParquetFile(f).read()) for f in files
        }
        found += [f"reader saw other rows in {name}" for name, was in report["seen"].items() if there.get(name) != was]
        if self.script.sink == TABLE or (self.script.kind == "hops complete" and self.script.sink != FUNCTION):
            return found + self._compare_answers(expected, report["answers"])
        tables = [feather.read_table(f) if f.suffix == ".arrow" else pq.ParquetFile(f).read() for f in files]
        tables = [renumbered(table, events) for table in tables]
        got = (
            rows_of(pa.concat_tables([t for t in tables if t.num_rows], promote_options="default"))
            if any(t.num_rows for t in tables)
            else []
        )
        wanted = rows_of(expected)
        self.rows = len(wanted)
        if sorted(map(repr, got)) != sorted(map(repr, wanted)):
            lost, extra = (Counter(map(repr, a)) - Counter(map(repr, b)) for a, b in ((wanted, got), (got, wanted)))
            found.append(
                f"{lost.total()} rows lost, {extra.total()} too many of {len(wanted)}: {[*lost][:2]} {[*extra][:2]}"
            )
        elif got != wanted and (
            self.script.sink == "ordered folder" or self.script.hops or any(a.change for a in self.script.asked)
        ):
            found.append("out of order")
        return found

    def _compare_late(self) -> list[str]:
        files = sorted((self.folder / "checkpoint" / "late").glob("batch-*.parquet"))
        kept = [(r["_stream"], r["_time"]) for file in files for r in pq.ParquetFile(file).read().to_pylist()]
        return [] if set(kept) == self.script.late else [f"late rows: {set(kept) ^ self.script.late} kept or missing"]

    def _compare_answers(self, expected: pa.Table, answers: list[list[Any]]) -> list[str]:
        """Compare whole answers, the last one and those that the reader saw, hop by hop."""
        (file,) = sorted((self.folder / "out").glob("*.parquet"))
        held = pq.ParquetFile(file).read()
        hops = answers_of(expected)
        self.rows = expected.num_rows
        names = [n for n in held.column_names if not n.startswith("_")]
        last = int(held.schema.metadata[b"midstream.hop"])
        found = []
        if hops and last != max(hops):
            found.append(f"the last answer is of hop {last}, not {max(hops)}")
        elif sorted(map(repr, rows_of(held.select(names)))) != sorted(map(repr, hops.get(last, []))):
            found.append(f"the answer at hop {last} is another one")
        found += [f"the reader saw hop {hop}, which is none" for hop, _ in answers if hop not in hops]
        return found


def renumbered(table: pa.Table, events: list[dict[str, Any]]) -> pa.Table:
    """Return results with their versions numbered as if nobody had died while they asked for one.

    A number is used once: who is killed after a version was written, and asks again, gets the next one.

    >>> changes = [{"event": "change", "state": "finished", "position_us": 7, "to_version": 4}]
    >>> renumbered(pa.table({"_version": [1, 4]}), changes).to_pydict()
    {'_version': [1, 2]}
    """
    begun = {
        e["to_version"] for e in events if e["event"] == "change" and "state" in e and e["position_us"] is not None
    }
    numbers = {1: 1} | {number: place for place, number in enumerate(sorted(begun), 2)}
    column = table.column_names.index("_version")
    versions = pa.array([numbers[v] for v in table.column("_version").to_pylist()], table.schema.field(column).type)
    return table.set_column(column, table.schema.field(column), versions)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return rows by their columns' names: a file may have them in another order."""
    names = sorted(table.column_names)
    return list(zip(*(table.column(n).to_pylist() for n in names), strict=True)) if names else []


def answers_of(expected: pa.Table) -> dict[int, list[tuple[Any, ...]]]:
    """Return the whole answer at every hop, from whole answers or from changes."""
    names = [n for n in expected.column_names if not n.startswith("_")]
    found: dict[int, list[tuple[Any, ...]]] = {}
    held: Counter[tuple[Any, ...]] = Counter()
    signed = "_sign" in expected.column_names
    version = 0
    for row in expected.to_pylist():
        values = tuple(row[n] for n in sorted(names))
        if not signed:
            found.setdefault(row["_hop"], []).append(values)
            continue
        if row["_version"] < version:  # the old version, which drains
            continue
        if row["_version"] > version:
            version, held = row["_version"], Counter()
        held[values] += row["_sign"]
        found[row["_hop"]] = sorted((+held).elements(), key=repr)
    return found


def table(file: Path) -> str:
    """Return what a campaign has done: each fault with its points, how often it happened, what was found.

    A life in which something was found is run again, and adds a line: what the last one of its seed finds is left.
    """
    done: dict[str, Counter[str]] = defaultdict(Counter)
    found: dict[str, int] = Counter()
    left: Counter[str] = Counter()
    lives = bad = looks = rows = 0
    read = [json.loads(line) for line in file.read_text().splitlines()]
    last = {life["seed"]: life for life in read}
    for life in read:
        lives += 1
        looks += life["looks"]
        rows += life["rows"]
        bad += bool(life["found"])
        for note in life["done"]:
            place, _, action = note.partition("=")
            done[action or "kill"][place.rpartition(":")[0]] += 1
            found[action or "kill"] += bool(life["found"])
            left[action or "kill"] += bool(life["found"]) and life is last[life["seed"]]
    lines = ["| fault | points | runs | found | left |", "|---|---|---|---|---|"]
    for action, points in sorted(done.items()):
        lines.append(f"| {action} | {len(points)} | {points.total()} | {found[action]} | {left[action]} |")
    total = sum(points.total() for points in done.values())
    lines.append(
        f"\n{total} faults in {lives} lives ({rows} rows, {looks} looks of the reader), {bad} lives with findings, "
        f"{sum(bool(life['found']) for life in last.values())} left"
    )
    by_point: Counter[str] = sum(done.values(), Counter())
    lines.append("points: " + ", ".join(f"{name} {count}" for name, count in sorted(by_point.items())))
    return "\n".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser(description="Kill live queries at named points.")
    arguments.add_argument(
        "--seeds", default="0:20", help="the first, and the one after the last; or some, with commas"
    )
    arguments.add_argument("--lives", type=int, default=1_000_000, help="how many of them at most")
    arguments.add_argument("--seconds", type=float, default=1e9, help="begin no life after so long")
    arguments.add_argument(
        "--resume", type=Path, default=Path("build/kills.jsonl"), help="seeds that went well are left out"
    )
    arguments.add_argument("--faults", help="others than those that are drawn, as MIDSTREAM_FAILPOINT has them")
    arguments.add_argument("--table", action="store_true", help="print what the file has, and run nothing")
    given = arguments.parse_args()
    if given.table:
        print(table(given.resume))
        return
    if os.getsid(0) != os.getpid():  # the processes of a run are known by their session
        sys.exit(subprocess.call([sys.executable, *sys.argv], start_new_session=True))
    logging.disable(logging.CRITICAL)  # py4j says at length what it thinks of a JVM that is dead
    given.resume.parent.mkdir(parents=True, exist_ok=True)
    lines = given.resume.read_text().splitlines() if given.resume.exists() else []
    last = {life["seed"]: life for life in map(json.loads, lines)}
    known = {seed for seed, life in last.items() if not life["found"]}
    todo = [seed for seed in seeds_of(given.seeds) if seed not in known][: given.lives]
    began, bad = time.monotonic(), 0
    campaign = Campaign(Path(tempfile.mkdtemp(prefix="midstream-kills-")))
    try:
        for seed in todo:
            if time.monotonic() - began > given.seconds:
                break
            outcome = campaign.run(seed, tuple(given.faults.split(",")) if given.faults else None)
            bad += bool(outcome.found)
            with open(given.resume, "a", encoding="utf-8") as file:
                file.write(json.dumps(vars(outcome)) + "\n")
            said = f"FOUND {outcome.found}" if outcome.found else "as in process"
            print(
                f"{seed}: {len(outcome.done)} faults, {outcome.starts} starts, {outcome.seconds} s: {said}", flush=True
            )
    finally:
        campaign.close()
    print(table(given.resume))
    sys.exit(1 if bad else 0)


def seeds_of(text: str) -> list[int]:
    """Read which seeds are meant: `3:6` or `3,4,5`."""
    first, colon, last = text.partition(":")
    return list(range(int(first), int(last))) if colon else [int(seed) for seed in text.split(",")]


if __name__ == "__main__":
    main()
