"""Replay a scenario on the host it names."""

from pathlib import Path

import pyarrow as pa

from midstream.local.loop import Loop, OnLate, Progress
from midstream.local.replay import Rehearsal, in_process
from midstream.local.replay import replay as replay_on
from midstream.local.report import Report
from midstream.local.sinks import Sink
from midstream.model.errors import MidstreamError


def replay(
    rehearsal: Rehearsal,
    out: Path | None = None,
    report: Path | None = None,
    late: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Report, pa.Table | None]:
    """Run a scenario in process or on Spark, as it says; write output, report and late rows at the end, or nothing.

    Return the report, and the output itself when no file was asked for.
    """
    host = on_spark if rehearsal.scenario.runtime == "spark" else in_process
    return replay_on(rehearsal, out, report, late, progress, host)


def on_spark(loop: Loop, sink: Sink, progress: Progress | None, on_late: OnLate | None) -> Report:
    """Run a loop's streams through Spark on this machine."""
    try:
        from midstream.spark.rehearse import rehearse  # PySpark is an extra
        from midstream.spark.settings import local_session
    except ImportError as error:
        raise MidstreamError(f'runtime = "spark" needs PySpark, which is not installed ({error.name})') from error
    return rehearse(local_session(), loop, loop.readers(on_late), sink, progress)
