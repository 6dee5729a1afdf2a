"""Midstream on Spark beside Spark's own joins, Flink, Pathway and a stateless shuffle: one 4-way join, the same files.

generate ──▶ Parquet ──▶ each system in its own process, one after the other ──▶ output ──▶ equal to DuckDB's?

Every system reads the first micro-batches of the same files: 1,000,000 rows (25 s of event time) each, four streams,
10 s windows, 100,000 keys. Rates leave the first micro-batches out. Slow systems run fewer; `systems` says how many.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.measure import Progress
from benchmarks.peers_systems.agreement import Judge
from benchmarks.peers_systems.data import (
    FULL_BATCH_S,
    Workload,
    csv_interleaved,
    csv_per_stream,
    generate,
    link_batches,
)
from benchmarks.peers_systems.job import Job, Skipped
from benchmarks.peers_systems.launch import environment, launch
from midstream.app.show import wide_console

DEFAULT_S = 200.0


@dataclass(frozen=True)
class System:
    """A system: where its code is, and how much it is given to do."""

    name: str
    module: str
    warm_up: int
    at_most: int
    """Measured micro-batches at most: slow systems get fewer."""
    limit_s: float = 1_800.0
    requirement: str = ""
    """What is installed in a virtual environment of its own; empty: it runs in this one."""
    csv: Callable[[Path, Path], None] | None = None
    """How it wants its CSV, if it reads CSV."""


SYSTEMS = (
    System("midstream", "midstream", warm_up=2, at_most=40),
    System("spark-rocksdb", "spark_rocksdb", warm_up=1, at_most=2),
    System("spark-hdfs", "spark_hdfs", warm_up=1, at_most=2),
    System("flink", "flink", warm_up=1, at_most=4, requirement="apache-flink==2.3.0", csv=csv_per_stream),
    System(
        "pathway", "pathway", warm_up=1, at_most=2, limit_s=900.0, requirement="pathway==0.33.0", csv=csv_interleaved
    ),
    System("pass-through", "pass_through", warm_up=2, at_most=40),
)


def run(
    seconds: float | None, seed: int, progress: Progress, only: tuple[str, ...] = (), keep: Path | None = None
) -> dict[str, Any]:
    """Return the figures of all systems, `rows_per_s` and `peak_bytes` being Midstream's; print them as a table.

    `seconds` is the event time measured after warm-up. Below 25 s the micro-batch, and with it the window and the
    number of keys, shrinks to it: a smoke run of the same shape.
    """
    span = DEFAULT_S if seconds is None else seconds
    batch_s = min(span, FULL_BATCH_S)
    measured = max(1, round(span / batch_s))
    chosen = [system for system in SYSTEMS if not only or system.name in only]
    batches = max(system.warm_up + min(measured, system.at_most) for system in chosen)
    workload = Workload(batches, batch_s, seed=seed)
    folder = Path(tempfile.mkdtemp(prefix="midstream-peers-", dir=keep))
    try:
        generate(workload, folder / "generated")
        judge = Judge(workload, folder / "generated")
        systems: dict[str, dict[str, Any]] = {}
        for place, system in enumerate(chosen):
            systems[system.name] = run_system(system, measured, workload, judge, folder)
            progress(place + 1, len(chosen))
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    own = systems.get("midstream", skipped("not asked for"))
    result = {
        "rows_per_s": own["rows_per_s"],
        "peak_bytes": own["peak_bytes"],
        "systems": systems,
        "ratios": ratios(own["rows_per_s"], systems),
        "agree": all(told["agrees"] for told in systems.values() if told["rows_in"]),
        "parameters": {**workload.parameters(), "seconds": span, "cores": 2},
    }
    print_table(result)
    return result


def run_system(system: System, measured: int, workload: Workload, judge: Judge, folder: Path) -> dict[str, Any]:
    """Give a system its job, watch it, judge its output, and clean up after it."""
    job = Job(
        system.name,
        str(folder / system.name),
        system.warm_up,
        min(measured, system.at_most),
        workload.batch_rows,
        workload.window_us,
        workload.start_us,
        workload.batch_us,
        workload.keys,
    )
    try:
        python = environment(system.module, system.requirement) if system.requirement else Path(sys.executable)
    except Skipped as reason:
        return skipped(str(reason))
    link_batches(folder / "generated", job.parquet, job.batches)
    if system.csv is not None:
        system.csv(job.parquet, job.csv)
    watched = launch(job, system.module, python, system.limit_s)
    said = watched.said
    if "skipped" in said:
        return skipped(said["skipped"])
    if said["agrees"] is None:
        agrees, found, expected = judge.judge(job.out, job.batches, said["complete_until_us"])
    else:
        agrees, found, expected = said["agrees"], 0, 0
    for place in (job.parquet, job.csv, job.out, job.checkpoint, job.scratch):
        shutil.rmtree(place, ignore_errors=True)
    return {
        "rows_per_s": said["rows_per_s"],
        "peak_bytes": watched.peak_bytes,
        "checkpoint_bytes": watched.checkpoint_bytes,
        "rows_in": said["rows_in"],
        "rows_out": found,
        "rows_expected": expected,
        "agrees": agrees and said["rows_in"] == job.rows_in,
        "note": said["note"],
        "warm_up_batches": job.warm_up,
        "measured_batches": job.measured,
        "batch_s": said["batch_s"],
        "wall_s": watched.wall_s,
    }


def skipped(reason: str) -> dict[str, Any]:
    """Return the entry of a system that did not run."""
    nothing = {"rows_per_s": 0.0, "peak_bytes": 0, "checkpoint_bytes": 0, "rows_in": 0, "rows_out": 0}
    return {**nothing, "agrees": False, "note": f"skipped: {reason}"}


def ratios(own: float, systems: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Return Midstream's rate as a multiple of each system's that ran; nothing when Midstream did not run.

    >>> ratios(400.0, {"midstream": {"rows_per_s": 400.0}, "x": {"rows_per_s": 100.0}, "y": {"rows_per_s": 0.0}})
    {'x': 4.0}
    """
    others = {name: told["rows_per_s"] for name, told in systems.items() if name != "midstream"}
    return {name: own / rate for name, rate in others.items() if own and rate}


def print_table(result: dict[str, Any]) -> None:
    """Print what people compare."""
    given = result["parameters"]
    table = Table(title=f"4-way join, micro-batches of {given['batch_rows']:,} rows, {given['cores']} cores")
    table.add_column("system")
    for heading in ("rows/s", "peak memory", "checkpoint", "rows in", "midstream is"):
        table.add_column(heading, justify="right")
    table.add_column("results")
    for name, told in result["systems"].items():
        if not told["rows_in"]:
            table.add_row(name, "", "", "", "", "", told["note"])
            continue
        ratio = result["ratios"].get(name)
        table.add_row(
            name,
            f"{told['rows_per_s']:,.0f}",
            f"{told['peak_bytes'] / 1e6:,.0f} MB",
            f"{told['checkpoint_bytes'] / 1e6:,.1f} MB",
            f"{told['rows_in']:,}",
            f"{ratio:,.2f}x" if ratio else "",
            "agree" if told["agrees"] else f"DIFFER: {told['rows_out']:,} for {told['rows_expected']:,}",
        )
    wide_console().print(table)
