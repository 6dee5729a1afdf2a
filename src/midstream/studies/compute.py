"""Compute the cases of studies, several at a time, each once; what is there from an earlier run is taken as it is.

cases ──▶ kept under the same name, by the same code? ──▶ read
                                        no ──▶ another process ──▶ keep ──▶ done
"""

import hashlib
import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from midstream.studies.frame.data import Columns
from midstream.studies.frame.study import Case

FORMAT = 1
ENGINE_ROOMS = ("model", "kernels", "plan", "lang", "optimize", "operators", "migrate", "change", "sites", "engine")
"""What results of cases depend on, besides the modules of studies that say what is run."""
Progress = Callable[[int, int, str], None]
"""Called with how many cases are done, how many there are, and which one was last."""


@cache
def code_digest() -> str:
    """Return a digest of the code that decides what cases find."""
    package = Path(__file__).parent.parent
    files = [file for room in ENGINE_ROOMS for file in sorted((package / room).rglob("*.py"))]
    files += [package / "studies" / "frame" / name for name in ("capacity.py", "follow.py")]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.relative_to(package).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def digest_of(case: Case) -> str:
    """Return a digest of the code a case runs: the engine's, and of the module its function is in."""
    own = Path(inspect.getfile(case.function)).read_bytes()
    return code_digest() + hashlib.sha256(own).hexdigest()[:16]


def kept_at(folder: Path, case: Case) -> Path:
    """Return where the columns of a case are kept."""
    return folder / f"{hashlib.sha256(case.name.encode()).hexdigest()[:20]}.json"


def read_kept(folder: Path, case: Case) -> Columns | None:
    """Return what an earlier run has found, if the code is the same."""
    try:
        kept = json.loads(kept_at(folder, case).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    known = isinstance(kept, dict) and kept.get("format") == FORMAT and kept.get("case") == case.name
    return kept["columns"] if known and kept.get("code") == digest_of(case) else None


def keep(folder: Path, case: Case, columns: Columns) -> None:
    """Keep what a case has found; it is there whole or not at all."""
    kept = {"format": FORMAT, "case": case.name, "code": digest_of(case), "columns": columns}
    place = kept_at(folder, case)
    pending = place.with_suffix(".pending")
    pending.write_text(json.dumps(kept) + "\n", encoding="utf-8")
    pending.replace(place)


def run_case(case: Case) -> dict[str, list[Any]]:
    """Compute a case; return its columns as plain values."""
    return {name: _plain(values) for name, values in case.function(**case.given).items()}


def _plain(values: Any) -> list[Any]:
    return (
        values.tolist() if isinstance(values, np.ndarray) else [v.item() if hasattr(v, "item") else v for v in values]
    )


def compute(cases: Sequence[Case], folder: Path, jobs: int, progress: Progress) -> dict[str, Columns]:
    """Return the columns of each case by its name."""
    folder.mkdir(parents=True, exist_ok=True)
    distinct = {case.name: case for case in cases}
    found = {name: columns for name, case in distinct.items() if (columns := read_kept(folder, case)) is not None}
    left = [case for name, case in distinct.items() if name not in found]
    progress(len(found), len(distinct), "")
    for case, columns in _computed(left, jobs):
        keep(folder, case, columns)
        found[case.name] = columns
        progress(len(found), len(distinct), case.name)
    return found


def _computed(cases: list[Case], jobs: int) -> Iterator[tuple[Case, Columns]]:
    if jobs <= 1 or len(cases) <= 1:
        for case in cases:
            yield case, run_case(case)
        return
    # Spawned, not forked: Arrow and Numba have threads of their own.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting: dict[Future[dict[str, list[Any]]], Case] = {pool.submit(run_case, case): case for case in cases}
        try:
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    yield waiting.pop(future), future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
