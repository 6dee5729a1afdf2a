"""Pictures: one look for all studies, as SVG for the page and as PNG."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from midstream.model.errors import MidstreamError
from midstream.studies.frame.data import Data
from midstream.studies.frame.study import Study

COLORS = ("#0b63a5", "#d1661f", "#2a8a4a", "#8a4fb0", "#b8323a", "#6b6b6b", "#b08a1e", "#1f8a8a")
"""Told apart in print and by most people."""
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
LOOK = {
    "font.size": 9.0, "font.family": "DejaVu Sans", "axes.grid": True, "grid.color": "#dddddd", "grid.linewidth": 0.6,
    "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False, "svg.fonttype": "path",
    "svg.hashsalt": "midstream", "figure.dpi": 100, "lines.linewidth": 1.6, "axes.axisbelow": True,
}  # fmt: skip


def load() -> Any:
    """Return matplotlib, or say how to get it."""
    try:
        import matplotlib
    except ImportError as error:
        raise MidstreamError("pictures need matplotlib: pip install 'midstream[reproduce]'") from error
    matplotlib.use("Agg")
    return matplotlib


def draw(study: Study, data: Data, png: Path) -> str:
    """Draw a study; write it as PNG and return it as SVG."""
    with load().rc_context(LOOK):
        figure = figure_of(study, data)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        figure.savefig(png, format="png", dpi=150, metadata={"Software": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def figure_of(study: Study, data: Data) -> Any:
    """Return the figure of a study."""
    load()
    from matplotlib.figure import Figure

    figure = Figure(figsize=study.size, layout="constrained")
    study.draw(data, figure)
    return figure


def panel(figure: Any, place: tuple[int, int, int], title: str, x: str, y: str, log: str = "") -> Any:
    """Add a panel with a title, both axes named with their units; `log` names the axes that are logarithmic."""
    axes = figure.add_subplot(*place)
    axes.set_title(title, loc="left", fontsize=9.5)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    return axes


def line(axes: Any, place: int, x: Any, y: Any, label: str, marker: str = "") -> None:
    """Draw a line in the look of its place."""
    axes.plot(
        x, y, label=label, marker=marker or None, markersize=4,
        color=COLORS[place % len(COLORS)], linestyle=DASHES[place % len(DASHES)],
    )  # fmt: skip


def bars(axes: Any, groups: Sequence[str], series: Mapping[str, Sequence[float]]) -> None:
    """Draw groups of bars, one of each series in each group."""
    width = 0.8 / len(series)
    for place, (label, values) in enumerate(series.items()):
        at = [k - 0.4 + (place + 0.5) * width for k in range(len(groups))]
        axes.bar(at, values, width * 0.94, label=label, color=COLORS[place % len(COLORS)])
    axes.set_xticks(range(len(groups)), groups)
    axes.grid(False, axis="x")


def legend(figure: Any, axes: Any) -> None:
    """Put one legend below all panels, where it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
