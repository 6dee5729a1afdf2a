"""The repository of a live query: its later versions, one file each, planned and checked before a change is asked for.

Whoever packs or runs rows reads them from here, so a version is there before the control row that names it. Until
that row is there, it is nobody's: whoever asked may have died in between. Functions are not written: an aggregate of
the user is known by its name, and whoever starts the query brings it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from midstream.change.repository import QueryVersion, check_removable
from midstream.engine.world import World
from midstream.live.control_log import ControlLog
from midstream.local.disk import THIS_MACHINE
from midstream.model.errors import MidstreamError
from midstream.model.failpoint import reach
from midstream.model.format import check_format, document, whole
from midstream.model.names import digits, is_number, numbers_among
from midstream.model.stream import StreamSchema
from midstream.plan.aggregates import UserAggregate
from midstream.plan.json import read_plan, read_schema, read_type, write_plan, write_schema, write_type
from midstream.plan.plan import Plan

FORMAT = 1
"""The form in which versions and the catalog are written."""
MOST_VERSIONS = 10**8
"""More versions than there can be: a file that names a later one is nobody's."""
CATALOG = "catalog.json"
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
        """Refuse a query that reads a stream this run does not read, and any where streams are joined at sites."""
        if self.first.sites:
            raise MidstreamError("a query over sites cannot be changed; start the other one with a new checkpoint")
        for source in plan.query.sources:
            if source.stream.name not in self.read:
                raise MidstreamError(
                    f"stream '{source.stream.name}' is not read by this run, which reads {', '.join(self.read)}; "
                    "streams for later versions are named when a query is first started"
                )


def write_catalog(folder: Path, catalog: Catalog, world: World = THIS_MACHINE) -> None:
    """Write down what later versions may read."""
    world.files.make_folder(folder)
    plain = {
        "format": FORMAT,
        "streams": [[s.name, s.time, write_schema(s.columns)] for s in catalog.streams],
        "read": list(catalog.read),
        "aggregates": {name: write_type(a.type) for name, a in catalog.aggregates.items()},
        "first": write_plan(catalog.first),
    }
    if world.read_json(folder / CATALOG) != json.loads(json.dumps(plain)):
        world.put_json(folder / CATALOG, plain, point=lambda: reach("catalog pending"))


def read_catalog(
    folder: Path, aggregates: Mapping[str, UserAggregate] | None = None, world: World = THIS_MACHINE
) -> Catalog | None:
    """Return what later versions may read, or None before that is written down.

    Without the user's `aggregates` queries can be planned, not run.
    """
    plain = world.read_json(folder / CATALOG)
    if plain is None:
        return None
    check_format(f"checkpoint {folder.parent}", plain.get("format"), FORMAT)
    with whole(folder / CATALOG):
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


class VersionFiles:
    """The versions in a folder of a checkpoint."""

    def __init__(self, folder: Path, world: World = THIS_MACHINE) -> None:
        self.folder = folder
        self._world = world

    def add(self, sql: str, plan: Plan, control: str | None = None) -> int:
        """Add a version; return its number. `control` is the id of the control row that will ask for it."""
        self._world.files.make_folder(self.folder)
        number = max([1, *self._taken()]) + 1
        plain = {"format": FORMAT, "number": number, "sql": sql, "query": query_text(plan), "plan": write_plan(plan)}
        if control is not None:
            plain["control"] = control
        if not self._world.add(self._file(number), json.dumps(plain).encode(), lambda: reach("version pending")):
            raise MidstreamError("another change was asked for at the same moment; ask again")
        reach("version added")
        return number

    def numbers(self) -> list[int]:
        """Return the numbers of the versions that are there."""
        names = self._world.files.names(self.folder)
        return sorted(number for number in _numbers(names, ".version") if number > 1)

    def has(self, number: int) -> bool:
        """Return whether a version is there."""
        return self._world.files.exists(self._file(number))

    def _taken(self) -> list[int]:
        """Return the numbers that were given, also of versions that were removed."""
        names = self._world.files.names(self.folder)
        found = (digits(name.partition(".")[0]) for name in names)
        return [number for number in found if number is not None and number < MOST_VERSIONS // 2]

    def plain(self, number: int) -> dict[str, Any]:
        """Return a version as it is written."""
        file = self._file(number)
        with whole(file):
            plain = document(file, self._world.files.read(file))
        check_format(f"version {file}", plain.get("format"), FORMAT)
        with whole(file):
            if not {"number", "sql", "query", "plan"} <= plain.keys():
                raise KeyError("plan")
        if plain.get("number") != number:
            raise MidstreamError(f"{file} was tampered with: it says that it is version {plain.get('number')!r}")
        return plain

    def load(self, number: int, aggregates: Mapping[str, UserAggregate]) -> QueryVersion:
        """Return a version."""
        plain = self.plain(number)
        with whole(self._file(number)):
            return QueryVersion(plain["number"], plain["sql"], read_plan(plain["plan"], aggregates))

    def remove(self, number: int) -> None:
        """Forget a version; its number is not given again."""
        file = self._file(number)
        self._world.files.move(file, file.with_suffix(".removed"))

    def retire(self, number: int) -> None:
        """Note that a version is over: its rows need not be packed any more."""
        self._world.files.make_folder(self.folder)
        self._world.files.write(self.folder / f"{number:04d}.over", b"")
        self._world.files.sync(self.folder)
        reach("version retired")

    def forget(self, number: int) -> None:
        """Remove a version that is over. Newer ones are there: its number is not given again."""
        self._world.files.remove(self._file(number))
        self._world.files.remove(self.folder / f"{number:04d}.over")

    def over(self) -> set[int]:
        """Return the versions that are over."""
        names = self._world.files.names(self.folder)
        return set(_numbers(names, ".over"))

    def _file(self, number: int) -> Path:
        if not is_number(number, least=1):
            raise MidstreamError(f"versions have numbers from 1, not {number!r}")
        return self.folder / f"{number:04d}.version"


def _numbers(names: Iterable[str], ending: str) -> Iterator[int]:
    return numbers_among(names, ending, 4, MOST_VERSIONS)


def registered(folder: Path, catalog: Catalog, world: World = THIS_MACHINE) -> dict[int, QueryVersion]:
    """Return the queries that can be changed to by number; 1 is the one the run was first started with."""
    place = VersionFiles(folder / REGISTERED, world)
    found = {n: place.load(n, catalog.aggregates) for n in place.numbers()}
    return {1: QueryVersion(1, query_text(catalog.first), catalog.first), **found}


def register(folder: Path, sql: str, plan: Plan, world: World = THIS_MACHINE) -> int:
    """Put a query where changes to it can be asked for by its number; return the number. Nobody runs it yet."""
    return VersionFiles(folder / REGISTERED, world).add(sql, plan)


def remove_registered(folder: Path, number: int, catalog: Catalog, world: World = THIS_MACHINE) -> None:
    """Forget a registered query; its number is not given again."""
    check_removable(number, registered(folder, catalog, world))
    VersionFiles(folder / REGISTERED, world).remove(number)


def query_text(plan: Plan) -> str:
    """Return what a query is known by: its text, however it is laid out."""
    return " ".join(str(plan.query).split())


@dataclass(frozen=True)
class StoredVersions:
    """The versions of a live query: the first, and those in its repository that were asked for."""

    folder: Path
    controls: Path
    """Where the control rows are that ask for them."""
    identity: str
    """Who the query is: a checkpoint may be deleted, and another one made in its place."""
    first: Plan
    aggregates: Mapping[str, UserAggregate] = field(default_factory=dict)
    world: World = THIS_MACHINE

    @property
    def files(self) -> VersionFiles:
        """Return the versions as files."""
        return VersionFiles(self.folder, self.world)

    @property
    def _key(self) -> tuple[str, str]:
        return self.identity, str(self.folder)

    def plan_of(self, number: int) -> Plan:
        """Return the plan a version was started with."""
        if number == 1:
            return self.first
        known = _plans.setdefault(self._key, {})
        if number not in known:
            known[number] = self.files.load(number, self.aggregates).plan
        return known[number]

    def asked(self) -> list[int]:
        """Return the versions that a control row has asked for, beside the first."""
        numbers = self.files.numbers()
        for held in (_plans, _rows):  # what is gone from there is over, and nobody remembers it
            known = held.get(self._key, {})
            for number in known.keys() - set(numbers):
                del known[number]
        return [number for number in numbers if self.is_asked(number)]

    def is_asked(self, number: int) -> bool:
        """Return whether the control row is there that asks for a version."""
        rows, files = _rows.setdefault(self._key, {}), self.files
        if number not in rows and files.has(number):
            rows[number] = files.plain(number).get("control")
        if number not in rows:
            return False
        row = rows[number]
        return row is None or ControlLog(self.controls, self.world).has(row)

    def texts(self) -> list[str]:
        """Return what the queries of later versions are known by."""
        return [self.files.plain(number)["query"] for number in self.asked()]

    def wanted(self) -> list[tuple[int, Plan]]:
        """Return the versions whose rows are wanted."""
        over = self.files.over()
        return [(n, self.plan_of(n)) for n in (1, *self.asked()) if n not in over]


_plans: dict[tuple[str, str], dict[int, Plan]] = {}
"""Plans that this process has read, by the query and the folder they are from: a version never changes."""
_rows: dict[tuple[str, str], dict[int, str | None]] = {}
"""The same of the control rows that ask for versions."""
