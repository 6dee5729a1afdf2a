"""Benchmarks: find, run and read them. The workloads themselves are in the folder `benchmarks/` of a checkout."""

import ast
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from midstream.local.sinks import PendingFile
from midstream.model.errors import MidstreamError

NOT_BENCHMARKS = ("__init__", "workload", "measure", "staged", "direct")


def folder() -> Path:
    """Return the folder of benchmarks beside the package's sources."""
    place = Path(__file__).resolve().parents[3] / "benchmarks"
    if not place.is_dir():
        raise MidstreamError("there are no benchmarks here; they come with a checkout installed by `make setup`")
    return place


def available() -> dict[str, str]:
    """Return each benchmark's name and the first sentence about it."""
    found = {}
    for file in sorted(folder().glob("*.py")):
        if file.stem not in NOT_BENCHMARKS:
            about = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
            found[file.stem] = about.split("\n")[0]
    return found


def run(
    name: str, seconds: float | None, seed: int, out: Path | None, progress: Callable[[int, int], None]
) -> dict[str, Any]:
    """Run a benchmark and return its figures; write them as JSON when asked."""
    if name not in available():
        raise MidstreamError(f"there is no benchmark '{name}'; there are {', '.join(available())}")
    if seconds is not None and seconds <= 0:
        raise MidstreamError(f"--seconds must be more than 0, not {seconds}")
    file = PendingFile(out) if out is not None else None
    try:
        if str(folder().parent) not in sys.path:
            sys.path.insert(0, str(folder().parent))
        module = importlib.import_module(f"benchmarks.{name}")
        result: dict[str, Any] = {"name": name, **module.run(seconds=seconds, seed=seed, progress=progress)}
        if file is not None:
            file.pending.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            file.commit()
    except BaseException:
        if file is not None:
            file.abort()
        raise
    return result


def summary(result: dict[str, Any]) -> str:
    """Return a run in one line.

    >>> summary({"name": "join4", "rows_per_s": 1500000.0, "peak_bytes": 50_000_000})
    'join4: 1,500,000 rows/s, 50.0 MB at most'
    """
    line = f"{result['name']}: {result['rows_per_s']:,.0f} rows/s, {result['peak_bytes'] / 1e6:,.1f} MB at most"
    return line + (f", {result['cost_ratio']:.2f}x the cost per row" if "cost_ratio" in result else "")


def read(path: Path) -> dict[str, Any]:
    """Read the JSON of a run."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise MidstreamError(f"there is no file {path}") from error
    except (OSError, ValueError) as error:
        raise MidstreamError(f"{path} is not the JSON of a benchmark run") from error
    if not (isinstance(document, dict) and "name" in document and isinstance(document.get("parameters", {}), dict)):
        raise MidstreamError(f"{path} is not the JSON of a benchmark run")
    return document
