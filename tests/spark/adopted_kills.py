"""Kill campaign for adopted programs: the driver is killed at named points, in every phase of a deployment.

    python tests/spark/adopted_kills.py [NAME ...]      prints a line per life; exit code 1 when one went wrong

A life is a program, what is asked of it, and the points at which its driver is killed. It is started again until it has
read everything. Then the output is compared with what the rows say, and every kill must have happened.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark import own_rows

import midstream as ms
from midstream.model.failpoint import NOTES, VARIABLE

DRIVER = Path(__file__).with_name("adopted_driver.py")
MOST_STARTS_MORE = 3
LIMIT_S = 600
PATIENT = {"grace": "1 second", "timeout": "10 minutes"}
"""On a machine that has much else to do, a version that starts may get no further for minutes."""
CATCHING_UP, COMPARING = "deployment catching up", "deployment comparing"


@dataclass(frozen=True)
class Life:
    build: str
    asks: list[dict[str, Any]]
    kills: list[str]
    expected: str
    files: int = 14
    turns: list[int] = field(default_factory=lambda: [1, 2])


def migrate(build: str, at: int = 3, **options: Any) -> dict[str, Any]:
    return {"at": at, "do": "migrate", "build": build, "options": {**PATIENT, **options}}


LIVES = {
    "prepared and catching up": Life(
        "totals",
        [migrate("totals_rewritten", verify=True, segments=1)],
        [
            "deployment asked",
            "deployment prepared",
            "version started:2",
            "first segment chosen",
            "deployment catching up",
        ],
        "totals",
    ),
    "comparing and switching": Life(
        "totals",
        [migrate("totals_rewritten", history="9 seconds", verify=True, segments=1)],
        [
            "deployment comparing",
            "deployment comparing:2",
            "switch due",
            "deployment switched",
            "deployment done",
        ],
        "totals",
    ),
    "rows, answers and results": Life(
        "paid",
        [migrate("paid_rewritten", strategy="general-parallel-track", history="6 seconds")],
        ["segment pending:2", "segment written:4", "segment linked:3", "answer staged half:6", "answer staged:6"],
        "paid",
    ),
    "between the micro-batches": Life(
        "numbered",
        [migrate("numbered_rewritten", strategy="general-moving-state")],
        ["version begun:3", "version ran:5", "sink half written:2", "results appeared:2", "segment published:3"],
        "numbered",
    ),
    "given up": Life(
        "totals",
        [migrate("totals_crashing", verify=True, segments=1), migrate("totals_rewritten", at=6)],
        ["deployment rolled back", "rows read:5", "gate pending:4", "gate noted:9", "rows in the journal:3"],
        "totals",
        turns=[1, 3],
    ),
}


def live(life: Life, folder: Path, seed: int = 7) -> list[str]:
    """Live a life; return what was wrong."""
    drawn = own_rows.draw(seed, life.files, each=6)
    files = own_rows.Files(folder / "in", drawn)
    files.write(life.files)
    rows = sum(len(file) for name in own_rows.NAMES for file in drawn[name])
    (folder / "life.json").write_text(json.dumps({"build": life.build, "asks": life.asks, "rows": rows}))
    notes = folder / "notes"
    environment = {**os.environ, VARIABLE: ",".join(life.kills), NOTES: str(notes)}
    for _ in range(len(life.kills) + MOST_STARTS_MORE):
        code = start(DRIVER, folder, environment)
        if code == 0:
            break
        if code not in (-signal.SIGKILL, 137):
            return [f"the driver ended with {code}: {(folder / 'driver.log').read_text()[-1500:]}"]
    done = sorted(file.name for file in notes.iterdir()) if notes.is_dir() else []
    wanted = sorted(kill if ":" in kill else f"{kill}:1" for kill in life.kills)
    wrong = [] if done == wanted else [f"these kills did not happen: {sorted(set(wanted) - set(done))}"]
    out = own_rows.bag(ms.read(folder / "out"))
    expected: Counter[tuple[Any, ...]] = getattr(own_rows, life.expected)(drawn)
    if out != expected:
        wrong.append(f"{(expected - out).total()} rows are missing and {(out - expected).total()} are extra")
    status = json.loads((folder / "checkpoint" / "status.json").read_text())
    if [turn[0] for turn in status["turns"]] != life.turns:
        wrong.append(f"the turns are {status['turns']}")
    return wrong


def start(driver: Path, folder: Path, environment: dict[str, str]) -> int:
    """Start a driver and wait until it ends; nothing of it stays."""
    with open(folder / "driver.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, str(driver), str(folder)], stdout=log, stderr=log, env=environment, start_new_session=True
        )
        try:
            code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            code = 124
    for _ in range(100):  # its JVM ends by itself; who does not is ended
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    return code


def main(names: list[str]) -> int:
    failed = 0
    for name in names or list(LIVES):
        life, begun = LIVES[name], time.monotonic()
        with tempfile.TemporaryDirectory(prefix="midstream-kills-") as folder:
            wrong = live(life, Path(folder))
        failed += bool(wrong)
        said = "; ".join(wrong) or f"{len(life.kills)} kills, the output as it should be"
        print(f"{name}: {said} ({time.monotonic() - begun:.0f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
