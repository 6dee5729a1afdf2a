"""The driver of one life of a join over sites, a process of its own that is killed: `python sites_driver.py FOLDER`.

Reads what FOLDER/life.json says, from the files in FOLDER/in, until everything has been read and no mail waits.
"""

import contextlib
import json
import os
import sys
import time
from pathlib import Path

from spark.kill_driver import FAILED, SETTLED_S, session
from spark.kill_script import all_committed, files_read

import midstream as ms
from midstream.local.sites import DeclaredSites


def main(folder: Path) -> None:
    life = json.loads((folder / "life.json").read_text())
    engine = ms.Engine(session(life["seed"]))
    for name in life["sites"]:
        frame = engine._spark.readStream.schema("ts long, k long, v long").option("maxFilesPerTrigger", 1)
        engine.stream(name, frame.parquet(str(folder / "in" / name)), time="ts")
    sites = DeclaredSites(life["sites"], life["results_at"], life["update"], life["threshold"])
    query = engine.query(life["sql"], name="life")
    run = query.start({"format": "folder", "path": str(folder / "out")}, folder / "checkpoint", sites=sites)
    spark, moved, changed = folder / "checkpoint" / "spark", time.monotonic(), ""
    while run.lives():
        now = f"{files_read(spark)} {(run.status().get('last_batch') or {}).get('batch')}"
        if now != changed:
            moved, changed = time.monotonic(), now
        settled = all_committed(spark) and not run.live.mail_waits()
        if files_read(spark) >= life["files"] and settled and time.monotonic() - moved > SETTLED_S:
            break
        time.sleep(0.05)
    with contextlib.suppress(ms.MidstreamError):  # it takes long
        run.stop(drain=True, timeout_s=240)
    status = run.status()
    if status["state"] != "stopped":
        print(f"the query is {status['state']}: {status.get('error')}", flush=True)
        os._exit(FAILED)
    os._exit(0)  # Spark is ended by whoever started this


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except BaseException as error:
        import traceback

        traceback.print_exc()
        print(f"ended by {type(error).__name__}: {error}", flush=True)
        os._exit(FAILED)
