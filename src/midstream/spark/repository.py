"""The repository of a live query: its later versions, one file each, planned and checked before a change is asked for.

Whoever packs or runs rows reads them from here, so a version is there before the control row that names it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from midstream.local.hop_plans import NOT_CHANGED
from midstream.local.loop import AnyPlan
from midstream.model.errors import MidstreamError, PlanError
from midstream.model.stream import StreamSchema
from midstream.plan.aggregates import UserAggregate
from midstream.plan.plan import Plan


def _pickler() -> Any:
    """Return what writes functions of the user, too; lambdas included."""
    import cloudpickle

    return cloudpickle


@dataclass(frozen=True)
class StoredVersion:
    """A version as it lies in the repository."""

    number: int
    sql: str
    plan: Plan


@dataclass(frozen=True)
class Catalog:
    """What a query of this run may read: the declared streams, those the run reads, and the user's aggregates."""

    streams: tuple[StreamSchema, ...]
    read: tuple[str, ...]
    aggregates: Mapping[str, UserAggregate]
    first: AnyPlan
    """The plan of version 1."""

    def changeable(self) -> Plan:
        """Return the plan of version 1 of a query that can be changed, or refuse."""
        if self.first.query.hop_us is not None:
            raise PlanError(NOT_CHANGED)
        return self.first

    def check(self, plan: Plan) -> None:
        """Refuse a query that reads a stream this run does not read."""
        for source in plan.query.sources:
            if source.stream.name not in self.read:
                raise MidstreamError(
                    f"stream '{source.stream.name}' is not read by this run, which reads {', '.join(self.read)}; "
                    "streams for later versions are named when a query is first started"
                )


def write_catalog(folder: Path, catalog: Catalog) -> None:
    """Write down what later versions may read."""
    folder.mkdir(parents=True, exist_ok=True)
    pending = folder / f".catalog.{os.getpid()}.pending"
    pending.write_bytes(_pickler().dumps(catalog))
    os.replace(pending, folder / "catalog")


def read_catalog(folder: Path) -> Catalog:
    """Return what later versions may read."""
    found: Catalog = _pickler().loads((folder / "catalog").read_bytes())
    return found


def add_version(folder: Path, sql: str, plan: Plan) -> StoredVersion:
    """Add a version; return it with its number."""
    folder.mkdir(parents=True, exist_ok=True)
    number = max((v for v in numbers(folder)), default=1) + 1
    stored = StoredVersion(number, sql, plan)
    pending = folder / f".{number:04d}.{os.getpid()}.pending"
    pending.write_bytes(_pickler().dumps(stored))
    try:
        os.link(pending, folder / f"{number:04d}.version")  # fails when another one was faster
    except FileExistsError:
        raise MidstreamError("another change was asked for at the same moment; ask again") from None
    finally:
        pending.unlink()
    return stored


def numbers(folder: Path) -> list[int]:
    """Return the numbers of the later versions."""
    return sorted(int(f.stem) for f in folder.glob("*.version"))


def load_version(folder: Path, number: int) -> StoredVersion:
    """Return a version."""
    return _load(str(folder / f"{number:04d}.version"))


@cache
def _load(path: str) -> StoredVersion:
    found: StoredVersion = _pickler().loads(Path(path).read_bytes())
    return found


def retire(folder: Path, number: int) -> None:
    """Note that a version is over: its rows need not be packed any more."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{number:04d}.over").touch()


def packed_versions(folder: Path | None, first: Plan) -> list[tuple[int, Plan]]:
    """Return the versions whose rows are wanted."""
    if folder is None or not folder.is_dir():
        return [(1, first)]
    over = {int(f.stem) for f in folder.glob("*.over")}
    later = [(n, load_version(folder, n).plan) for n in numbers(folder)]
    return [(n, plan) for n, plan in [(1, first), *later] if n not in over]
