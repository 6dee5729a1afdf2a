"""Drawn runs in process, killed between any two steps of a commit and resumed, emit what undisturbed ones do."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from midstream.engine.planning.advisers import OWN
from midstream.local import batch_folder, checkpoint, files
from midstream.local.batch_folder import BatchFolder
from midstream.local.loop import Loop, RunningLoop, output_schema
from midstream.local.replay import in_process
from midstream.local.report import Report
from midstream.local.resume import resume
from oracle.scripts import KINDS, draw_script
from seeds import few_quick, seeds

CLOCKS = ("wall", "ms", "seconds", "response")
"""Parts of the names of what a clock has measured."""


class KilledError(BaseException):
    """The process ends here."""


class Killer:
    """Ends a run at the n-th point it passes: between any two steps of a commit, or after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed = 0
        self.at: int | None = None
        self.where: list[str] = []
        for module in (batch_folder, checkpoint, files):
            monkeypatch.setattr(module, "reach", self.reach)

    def reach(self, name: str) -> None:
        self.passed += 1
        if self.passed == self.at:
            self.where.append(name)
            raise KilledError(name)


def opened(loop: Loop, folder: Path) -> RunningLoop:
    sink = BatchFolder(folder / "out", output_schema(loop.plan, *loop.versions))
    return resume(loop, folder / "checkpoint", sink)


def until_killed(loop: Loop, folder: Path) -> Report | None:
    """Run or go on; return the report, or None after a kill."""
    running: RunningLoop | None = None
    try:
        running = opened(loop, folder)
        while not running.finished and running.step():
            pass
        return running.finish()
    except KilledError:
        return None
    finally:
        if running is not None:
            running.release()  # the lock goes with the process


def rows_of(table: pa.Table) -> list[str]:
    """Return rows in order, as text: a NaN equals itself there."""
    return [str(row) for row in table.to_pylist()]


def output(folder: Path, schema: pa.Schema) -> list[str]:
    tables = [pq.read_table(file) for file in sorted((folder / "out").glob("batch-*.parquet"))]
    return rows_of(pa.concat_tables([schema.empty_table(), *tables], promote_options="default"))


def said(report: Report) -> dict[str, Any]:
    """Return what does not depend on clocks, and on how much work it took."""
    changes = [{k: v for k, v in c.items() if not any(part in k for part in CLOCKS)} for c in report.changes]
    # One may wait until states are whole again; what is decided goes by the work it took.
    migrations = [m["identity"] for m in report.migrations if not m["identity"].endswith(OWN)]
    batches = [(b.end, b.rows_in, b.rows_out, b.hops) for b in report.batches]
    rows = report.rows_in, report.rows_out, report.late_by_stream, report.ahead_by_stream
    return {"rows": rows, "changes": changes, "migrations": migrations, "batches": batches}


@pytest.mark.parametrize("seed", seeds(0, 40, quick=1, kept=[8]))
@pytest.mark.parametrize("kind", few_quick(KINDS, 3))
def test_a_killed_run_goes_on_exactly(kind: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = draw_script(kind, seed)
    expected, undisturbed = script.run(in_process)
    killer, rnd = Killer(monkeypatch), random.Random(seed)
    assert until_killed(script.loop, tmp_path / "whole") is not None
    assert output(tmp_path / "whole", expected.schema) == rows_of(expected), script.told
    points = killer.passed
    killed, seen = tmp_path / "killed", dict[str, bytes]()
    report = None
    while report is None:
        killer.passed, killer.at = 0, rnd.randint(1, max(3, points // 2)) if len(killer.where) < 4 else None
        report = until_killed(draw_script(kind, seed).loop, killed)
        shown = {file.name: file.read_bytes() for file in (killed / "out").glob("batch-*.parquet")}
        assert {name: shown.get(name) for name in seen} == seen, "what has appeared stays as it is"
        seen = shown
    assert killer.where
    told = f"{killer.where} {script.told}"
    assert output(killed, expected.schema) == rows_of(expected), told
    assert said(report) == said(undisturbed), told
