"""The driver of one life, a process of its own that is killed: `python kill_driver.py FOLDER SEED`.

Reads the files that appear in FOLDER/in, asks for what its script says, stops when everything has been read. Started
again, it goes on: what has been asked for already is in the checkpoint, or in FOLDER/asked.
"""

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.feather as feather
from spark.kill_script import FUNCTION, ORDERED, ROWS, TABLE, KillScript, all_committed, draw, files_read

import midstream as ms
from midstream.model.failpoint import NOTES, VARIABLE
from oracle.optimized import RESTLESS

FAILED, HELD = 3, 4
"""How a process ends whose query has failed; whose query is dead and looks alive."""
SETTLED_S = 1.0


FAST = {
    "spark.python.daemon.module": "spark.warm_pyspark.daemon",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""What makes small queries cheap, and has nothing to do with what a crash leaves."""


def session(seed: int) -> Any:
    """Return a session in which a task may fail often; its workers know of the failpoints, too.

    One life in four writes Spark's own files as Spark does by itself, which starts five processes for each.
    """
    from pyspark.sql import SparkSession

    from midstream.spark.settings import DEFAULTS, REHEARSAL

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    named = {f"spark.executorEnv.{name}": os.environ[name] for name in (VARIABLE, NOTES) if name in os.environ}
    settings = {**DEFAULTS, **named, **FAST, **(REHEARSAL if seed % 4 else {})}
    spark = SparkSession.builder.master("local[2, 16]").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def sink_of(script: KillScript, out: Path) -> Any:
    """Return the sink of a life. A function that is exactly-once writes by the numbers that it is given."""

    def take(frame: Any, batch: int) -> None:
        put(frame, f"batch-{batch:08d}.arrow")

    def take_hop(frame: Any, batch: int, hop: int | None) -> None:
        put(frame, f"batch-{batch:08d}-{0 if hop is None else hop:012d}.arrow")

    def put(frame: Any, name: str) -> None:
        out.mkdir(exist_ok=True)
        feather.write_feather(frame.toArrow(), out / f".{name}", "uncompressed")
        os.replace(out / f".{name}", out / name)

    if script.sink == FUNCTION:
        return take_hop if script.hops else take
    return {"format": "table" if script.sink == TABLE else "folder", "path": str(out)}


def main(folder: Path, seed: int) -> int:
    script = draw(seed)
    engine = ms.Engine(session(seed))
    for name in script.streams:
        frame = engine._spark.readStream.schema("ts long, k long, v long").option("maxFilesPerTrigger", 1)
        engine.stream(name, frame.parquet(str(folder / "in" / name)), time="ts", lateness="500 ms")
    query = engine.query(script.first, name="life")
    ordered = script.sink == ORDERED or any(a.change for a in script.asked)
    optimize = RESTLESS if script.optimized else "off"
    run = query.start(
        sink_of(script, folder / "out"), folder / "checkpoint", buckets=2, ordered=ordered, optimize=optimize
    )
    (folder / "began").write_text(str(os.getpid()))
    moved, changed = 0.0, ""
    while run.lives():
        status = run.status()
        read = files_read(folder / "checkpoint" / "spark") * ROWS
        ask(run, script, folder, read)
        now = f"{read} {(status.get('last_batch') or {}).get('batch')} {sorted(run.live.unread)}"
        if now != changed:
            moved, changed = time.monotonic(), now
        settled = all_committed(folder / "checkpoint" / "spark") and not run.live.unread
        if read >= script.rows and settled and time.monotonic() - moved > SETTLED_S:
            break
        time.sleep(0.05)
    with contextlib.suppress(ms.MidstreamError):  # it takes long
        run.stop(drain=True, timeout_s=120)
    with contextlib.suppress(ms.MidstreamError):  # it has failed, as its status says
        run.wait(120)
    status = run.status()
    if status["state"] != "stopped":
        print(f"the query is {status['state']}: {status.get('error')}", flush=True)
        looks_alive = run._checkpoint.taken or status["state"] not in ("failed", "died")
        os._exit(HELD if looks_alive else FAILED)
    os._exit(0)  # what else there is, Spark, is ended by whoever started this


def ask(run: Any, script: KillScript, folder: Path, read: int) -> None:
    """Ask for what is due and has not been asked for."""
    rows = [r for r in run._checkpoint.controls.rows() if r["do"] == "change"]
    sent = {" ".join(r["change"]["sql"].split()) for r in rows}
    for place, due in enumerate(script.asked):
        note = folder / "asked" / str(place)
        if read < due.after_rows or note.exists():
            continue
        if due.plan is not None:
            try:
                # What is held back leaves in an order of its own; where the order is compared, nothing is.
                merged = script.sink == ORDERED and due.strategy == "parallel-track"
                run.migrate(due.plan, due.strategy, **({"output": "merged"} if merged else {}))
            except ms.MidstreamError as error:
                print(f"migration refused: {error}", flush=True)
        elif " ".join(str(due.sql).split()) not in sent:
            method, _, order = str(due.change).partition("/")
            try:
                run.change(due.sql, method, order or None)
            except ms.MidstreamError as error:
                if not run.lives():
                    return
                print(f"change refused: {error}", flush=True)
        note.parent.mkdir(exist_ok=True)
        note.touch()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), int(sys.argv[2]))
    except BaseException as error:
        import traceback

        traceback.print_exc()
        print(f"ended by {type(error).__name__}: {error}", flush=True)
        sys.stdout.flush()
        os._exit(FAILED)
