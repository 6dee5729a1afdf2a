"""A driver of the kill campaign for adopted programs: it starts or goes on, asks for what is due, and ends at the end.

python adopted_driver.py FOLDER: reads FOLDER/life.json; exit code 0 when everything has been read and answered.
"""

import json
import sys
from pathlib import Path
from typing import Any

from spark.own_rows import NAMES, SCHEMA

import midstream as ms
from midstream.live.adopted.gate_log import BEFORE_SWITCH, OPEN
from midstream.live.checkpoint import Checkpoint
from midstream.spark.settings import REHEARSAL, local_session

PROGRAMS = Path(__file__).with_name("own_programs.py")


def main(folder: Path) -> None:
    life = json.loads((folder / "life.json").read_text())
    spark = local_session()
    for key, value in {**REHEARSAL, "spark.sql.shuffle.partitions": "2"}.items():
        spark.conf.set(key, value)
    engine = ms.Engine(spark)
    for name in NAMES:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        engine.stream(name, reader.parquet(str(folder / "in" / name)), time="ts")
    query = engine.adopt("own", f"{PROGRAMS}:{life['build']}")
    run = query.start(folder / "out", folder / "checkpoint", trigger={"processingTime": "50 milliseconds"})
    controls = Checkpoint(folder / "checkpoint").controls
    while True:
        if run.wait(0.1):
            sys.exit(3)
        status, sent = run.status(), len(controls.ids())
        published = status.get("published", 0)
        if sent < len(life["asks"]):
            if published >= life["asks"][sent]["at"] and answered(run, sent):
                ask(run, life["asks"][sent])
        elif over(run, status, life["rows"]):
            run.stop()
            return


def ask(run: Any, asked: dict[str, Any]) -> None:
    if asked["do"] == "rollback":
        run.rollback()
    else:
        build = f"{PROGRAMS}:{asked['build']}"
        getattr(run, asked["do"])(build, **asked["options"])


def answered(run: Any, sent: int) -> bool:
    """Return whether what was asked for before is under way no more: another deployment would be refused."""
    known = run.deployments()
    return len(known) >= sent and all(record["state"] not in BEFORE_SWITCH for record in known)


def over(run: Any, status: dict[str, Any], rows: int) -> bool:
    if (status.get("deployment") or {}).get("state") in OPEN or status["rows_in"] < rows:
        return False
    return bool(run._journal.ticked and status["published"] == run._journal.last)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
