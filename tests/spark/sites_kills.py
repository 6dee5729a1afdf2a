"""Kill campaign for joins over sites: a site's worker and then the driver are killed in every phase of a migration.

    python tests/spark/sites_kills.py [NAME ...]      prints a line per life; exit code 1 when one went wrong

A life is a join over three sites whose rates change, so that its plan is modified, and the points at which its
processes are killed. It is started again until it has read everything. Then the rows are those of one machine, in the
same order, and every kill must have happened.
"""

import json
import os
import random
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from spark.adopted_kills import start

import midstream as ms
from midstream.model.failpoint import NOTES, VARIABLE

DRIVER = Path(__file__).with_name("sites_driver.py")
MOST_STARTS_MORE = 3
FILES, SECOND = 10, 1_000_000
SITES = {"a": "tokyo", "b": "london", "c": "paris"}
SQL = """SELECT a.v AS va, b.v AS vb, c.v AS vc FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS], c [RANGE 2 SECONDS]
WHERE a.k = b.k AND b.k = c.k"""
PHASES = [
    "modification sent", "modification read", "window request sent", "window request read", "window copy sent",
    "window copy read", "local-ready sent", "local-ready read", "global-ready sent", "global-ready read",
    "node migrated",
]  # fmt: skip
"""What nodes say in a migration, in this order."""
MAIL = ["mail sent:4", "mail pending:3", "mail written:5", "mail removed:3"]


@dataclass(frozen=True)
class Life:
    update: str
    kills: tuple[str, ...]


LIVES = {
    "workers": Life("centralized", tuple(PHASES)),
    "drivers, modifying": Life("centralized", tuple(f"{phase}=kill driver" for phase in PHASES[:5])),
    "drivers, migrating": Life("centralized", tuple(f"{phase}=kill driver" for phase in PHASES[5:])),
    "distributed": Life("distributed", ("turn sent", *PHASES[::3], "turn read=kill driver")),
    "mail": Life("centralized", (*MAIL, "mail read", "mail read:2=kill driver")),
    "workers, then the driver": Life(
        "centralized",
        ("window request sent", "window copy sent=kill driver", "local-ready read", "global-ready read=kill driver"),
    ),
}


def rows_of(seed: int) -> dict[str, list[pa.Table]]:
    """Return the rows of each stream, a table for each second; rates change in the middle."""
    rnd, found = random.Random(seed), {}
    for place, name in enumerate(SITES):
        tables = []
        for second in range(FILES):
            busy = (second < FILES // 2) == (place != 0)
            times = rnd.sample(range(second * SECOND, (second + 1) * SECOND), 60 if busy else 15)
            columns = {
                "ts": sorted(times),
                "k": [rnd.randrange(12) for _ in times],
                "v": [rnd.randrange(99) for _ in times],
            }
            tables.append(pa.table(columns))
        found[name] = tables
    return found


def live(life: Life, folder: Path, seed: int = 1) -> list[str]:
    """Live a life; return what was wrong."""
    drawn = rows_of(seed)
    for name, tables in drawn.items():
        (folder / "in" / name).mkdir(parents=True)
        for number, table in enumerate(tables):
            file = folder / "in" / name / f"{number:05d}.parquet"
            pq.write_table(table, file)
            os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))
    said = {"seed": seed, "sites": SITES, "results_at": "paris", "update": life.update, "threshold": 0.3, "sql": SQL}
    (folder / "life.json").write_text(json.dumps({**said, "files": FILES * len(SITES)}))
    notes = folder / "notes"
    environment = {**os.environ, VARIABLE: ",".join(life.kills), NOTES: str(notes)}
    for _ in range(len(life.kills) + MOST_STARTS_MORE):
        code = start(DRIVER, folder, environment)
        if code == 0:
            break
        if code not in (-signal.SIGKILL, 137):
            return [f"the driver ended with {code}: {(folder / 'driver.log').read_text()[-3000:]}"]
    done = {file.name for file in notes.iterdir()} if notes.is_dir() else set()
    wanted = {noted(kill) for kill in life.kills}
    wrong = [] if done == wanted else [f"these kills did not happen: {sorted(wanted - done)}"]
    engine = ms.Engine()
    for name, tables in drawn.items():
        engine.stream(name, pa.concat_tables(tables), time="ts")
    expected = engine.query(SQL).start().table().to_pylist()
    found = ms.read(folder / "out").select(["va", "vb", "vc", "_time", "_version"]).to_pylist()
    wanted_rows = [{name: row[name] for name in ("va", "vb", "vc", "_time", "_version")} for row in expected]
    if found != wanted_rows:
        wrong.append(f"{len(found)} rows where {len(wanted_rows)} are expected, or in another order")
    status = json.loads((folder / "checkpoint" / "status.json").read_text())
    if not any(site["modification"] for site in status["last_batch"]["sites"]):
        wrong.append("the plan was never modified")
    return wrong


def noted(kill: str) -> str:
    """Return what is noted of a kill that has happened."""
    place, _, action = kill.partition("=")
    return (place if ":" in place else f"{place}:1") + (f"={action}" if action else "")


def main(names: list[str]) -> int:
    """Live the lives of some names, or all."""
    failed = 0
    for name in names or LIVES:
        with tempfile.TemporaryDirectory(prefix="midstream-sites-") as folder:
            wrong = live(LIVES[name], Path(folder))
        failed += bool(wrong)
        print(f"{name}: {'; '.join(wrong) or 'nothing is lost, nothing comes twice'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
