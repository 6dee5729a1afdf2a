"""The repository of a live query: its later versions, one file each, planned and checked before a change is asked for.

Whoever packs or runs rows reads them from here, so a version is there before the control row that names it. Functions
are not written: an aggregate of the user is known by its name, and whoever starts the query brings it.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from midstream.change.repository import QueryVersion, check_removable
from midstream.local.files import replace_json
from midstream.model.errors import MidstreamError
from midstream.model.format import check_format
from midstream.model.stream import StreamSchema
from midstream.plan.aggregates import UserAggregate
from midstream.plan.json import read_plan, read_schema, read_type, write_plan, write_schema, write_type
from midstream.plan.plan import Plan

FORMAT = 1
"""The form in which versions and the catalog are written."""
REGISTERED = "registered"
"""Where the queries lie that can be changed to by number."""


@dataclass(frozen=True)
class Catalog:
    """What a query of this run may read: the declared streams, those the run reads, and the user's aggregates."""

    streams: tuple[StreamSchema, ...]
    read: tuple[str, ...]
    aggregates: Mapping[str, UserAggregate]
    first: Plan
    """The plan of version 1."""

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
    plain = {
        "format": FORMAT,
        "streams": [[s.name, s.time, write_schema(s.columns)] for s in catalog.streams],
        "read": list(catalog.read),
        "aggregates": {name: write_type(a.type) for name, a in catalog.aggregates.items()},
        "first": write_plan(catalog.first),
    }
    replace_json(folder / "catalog.json", plain)


def read_catalog(folder: Path, aggregates: Mapping[str, UserAggregate] | None = None) -> Catalog:
    """Return what later versions may read; without the user's `aggregates` queries can be planned, not run."""
    plain = json.loads((folder / "catalog.json").read_text(encoding="utf-8"))
    check_format(f"checkpoint {folder.parent}", plain.get("format"), FORMAT)
    streams = tuple(StreamSchema(name, read_schema(columns), time) for name, time, columns in plain["streams"])
    known = {n: UserAggregate(n, Absent(n), read_type(t)) for n, t in plain["aggregates"].items()}
    known |= aggregates or {}
    return Catalog(streams, tuple(plain["read"]), known, read_plan(plain["first"], known))


@dataclass(frozen=True)
class Absent:
    """The function of an aggregate that this process was not given."""

    name: str

    def __call__(self, values: Any) -> Any:
        """Refuse to compute."""
        raise MidstreamError(f"aggregate '{self.name}' was not declared when the query was started")


def add_version(folder: Path, sql: str, plan: Plan) -> int:
    """Add a version; return its number."""
    folder.mkdir(parents=True, exist_ok=True)
    return _write(folder, max(numbers(folder), default=1) + 1, sql, plan)


def _write(folder: Path, number: int, sql: str, plan: Plan) -> int:
    pending = folder / f".{number:04d}.{os.getpid()}.pending"
    plain = {"format": FORMAT, "number": number, "sql": sql, "query": query_text(plan), "plan": write_plan(plan)}
    pending.write_text(json.dumps(plain), encoding="utf-8")
    try:
        os.link(pending, folder / f"{number:04d}.version")  # fails when another one was faster
    except FileExistsError:
        raise MidstreamError("another change was asked for at the same moment; ask again") from None
    finally:
        pending.unlink()
    return number


def register(folder: Path, sql: str, plan: Plan) -> int:
    """Put a query where changes to it can be asked for by its number; return the number. Nobody runs it yet."""
    place = folder / REGISTERED
    place.mkdir(parents=True, exist_ok=True)
    taken = [int(f.stem) for f in place.glob("[0-9]*")]
    return _write(place, max(taken, default=1) + 1, sql, plan)


def registered(folder: Path, catalog: Catalog) -> dict[int, QueryVersion]:
    """Return the queries that can be changed to by number; 1 is the one the run was first started with."""
    place = folder / REGISTERED
    found = {n: load_version(place, n, catalog.aggregates) for n in numbers(place)}
    return {1: QueryVersion(1, query_text(catalog.first), catalog.first), **found}


def remove_registered(folder: Path, number: int, catalog: Catalog) -> None:
    """Forget a registered query; its number is not given again."""
    file = folder / REGISTERED / f"{check_removable(number, registered(folder, catalog)):04d}.version"
    file.rename(file.with_suffix(".removed"))


def numbers(folder: Path) -> list[int]:
    """Return the numbers of the later versions."""
    return sorted(int(f.stem) for f in folder.glob("*.version"))


def load_version(folder: Path, number: int, aggregates: Mapping[str, UserAggregate]) -> QueryVersion:
    """Return a version."""
    plain = _read(str(folder / f"{number:04d}.version"))
    return QueryVersion(plain["number"], plain["sql"], read_plan(plain["plan"], aggregates))


@cache
def _read(path: str) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    check_format(f"version {path}", plain.get("format"), FORMAT)
    return plain


def query_text(plan: Plan) -> str:
    """Return what a query is known by: its text, however it is laid out."""
    return " ".join(str(plan.query).split())


def query_texts(folder: Path) -> list[str]:
    """Return what the queries of later versions are known by."""
    return [_read(str(folder / f"{number:04d}.version"))["query"] for number in numbers(folder)]


def retire(folder: Path, number: int) -> None:
    """Note that a version is over: its rows need not be packed any more."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{number:04d}.over").touch()


@dataclass(frozen=True)
class StoredVersions:
    """The versions of a live query: the first, and those in its repository."""

    folder: str
    first: Plan
    aggregates: Mapping[str, UserAggregate] = field(default_factory=dict)
    _plans: dict[int, Plan] = field(default_factory=dict, compare=False)

    def plan_of(self, number: int) -> Plan:
        """Return the plan a version was started with."""
        if number == 1:
            return self.first
        if number not in self._plans:
            self._plans[number] = load_version(Path(self.folder), number, self.aggregates).plan
        return self._plans[number]

    def wanted(self) -> list[tuple[int, Plan]]:
        """Return the versions whose rows are wanted."""
        folder = Path(self.folder)
        over = {int(f.stem) for f in folder.glob("*.over")}
        return [(n, self.plan_of(n)) for n in (1, *numbers(folder)) if n not in over]
