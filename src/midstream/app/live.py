"""The live view: a running query on the terminal; without a terminal, one line per micro-batch.

Decisions of the query stay above the view as lines, when they are made and when they turn out to pay or not.
"""

import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from midstream.app.decided import News
from midstream.app.show import sparkline
from midstream.app.status import batch_line, figures, plan_lines

if TYPE_CHECKING:
    from midstream.spark.run import SparkRun  # PySpark is an extra, and slow to import

LOOK_S = 0.25
HISTORY = 60


class View:
    """What is shown of one run: the figures of its status, rates over time, the join tree."""

    def __init__(self, run: "SparkRun", about: str) -> None:
        self._run = run
        self._about = about
        self._started = time.time()
        self._rates: deque[tuple[int, int]] = deque(maxlen=HISTORY)

    def on_batch(self, status: dict[str, Any]) -> None:
        """Take in a micro-batch."""
        self._rates.append((int(status["rows_in_per_s"]), int(status["rows_out_per_s"])))

    def draw(self, status: dict[str, Any], note: str) -> RenderableType:
        """Return the picture."""
        table = Table.grid(padding=(0, 2))
        for name, value in figures(status):
            table.add_row(Text(name, style="dim"), value)
        table.add_row(Text("in, rows/s", style="dim"), sparkline([r[0] for r in self._rates]))
        table.add_row(Text("out, rows/s", style="dim"), sparkline([r[1] for r in self._rates]))
        plan = self._run.running_plan()
        tree = Text(plan_lines(plan) + f"\n{status.get('buckets', '')} buckets, {plan.partitioning}")
        title = f"{self._run.name}: {status['state']}, {time.time() - self._started:.0f} s"
        picture = Columns([table, tree], padding=(0, 4))
        return Panel(Group(picture, Text(note or self._about, style="dim")), title=title, title_align="left")


def watch(run: "SparkRun", about: str, note: Callable[[], str] = lambda: "") -> None:
    """Show a run until it ends; a failure of the query is raised.

    `note` is called at every look, and what it returns is shown.
    """
    view, news, seen = View(run, about), News(), (run.status().get("last_batch") or {}).get("at")
    if not sys.stdout.isatty():
        print(plan_lines(run.running_plan()), about, sep="\n", flush=True)
    with _screen() as (show, tell):
        ended = False
        while not ended:
            ended = run.wait(LOOK_S)
            status, text = run.status(), note()
            batch = status.get("last_batch") or {}
            if batch.get("at") != seen:
                seen = batch.get("at")
                view.on_batch(status)
                if show is None:
                    print(batch_line(batch), flush=True)
            for line in news.of(status.get("decisions", [])):
                tell(line)
            if show is not None:
                show(view.draw(status, text))


@contextmanager
def _screen() -> Iterator[tuple[Callable[[RenderableType], None] | None, Callable[[str], None]]]:
    """Hand out what redraws the terminal, or nothing when there is none, and what prints a line that stays."""
    if not sys.stdout.isatty():
        yield None, lambda line: print(line, flush=True)
        return
    with Live(console=Console(), auto_refresh=False, vertical_overflow="visible") as live:
        yield (
            lambda picture: live.update(picture, refresh=True),
            lambda line: live.console.print(Text(line, style="bold")),
        )


@contextmanager
def stopped_by_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Ask a run to stop on Ctrl-C or SIGTERM; a second one interrupts at once.

    PySpark's own handler would cancel the micro-batch that runs, and so fail the query.
    """
    asked = False

    def on_signal(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        print("stopping after this micro-batch (Ctrl-C again: at once)", file=sys.stderr, flush=True)
        stop()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
