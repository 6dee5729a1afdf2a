"""Scenario: a TOML file that names a query, recorded streams, how to run them and what to change on the way."""

import datetime as dt
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from midstream.change.repository import check_registered
from midstream.change.request import OPTIONS as CHANGE_OPTIONS
from midstream.change.request import ChangeRequest, ControlRequest
from midstream.engine.planning.optimizing import MODES as OPTIMIZE
from midstream.local.loop import MOST_BUCKETS
from midstream.local.sites import RUN_KEYS as SITES_KEYS
from midstream.local.sites import read_sites
from midstream.local.toml_file import TIMING_KEYS, AggregateSpec, TomlFile
from midstream.migrate.request import OPTIONS, MigrationRequest
from midstream.model.errors import MidstreamError, ScenarioError
from midstream.model.time import parse_instant
from midstream.model.timing import Timing
from midstream.operators.build import CACQ, SITES, STAIRS, TREE
from midstream.sites.declaration import DeclaredSites

TOP_KEYS = ("query", "sql", "streams", "run", "at", "aggregates", "versions", "links", "load")
STREAM_KEYS = ("path", "time", "site", *TIMING_KEYS)
HOP_KEYS = ("modes", "working", "hop")
"""What is asked of a hopping plan beside its shape."""
RUN_KEYS = (
    "runtime",
    "batch",
    "buckets",
    "plan",
    "join",
    "framework",
    "routing",
    "lateness",
    "late",
    "adapt",
    "optimize",
    *HOP_KEYS[:2],
    *SITES_KEYS,
)
AT_KEYS = ("time", "migrate", "strategy", *OPTIONS, *HOP_KEYS)
CHANGE_KEYS = ("time", "change", *CHANGE_OPTIONS)
CONTROL_KEYS = ("time", "control")
Request = MigrationRequest | ChangeRequest | ControlRequest
RUNTIMES = ("local", "spark")
JOINS = ("auto", "hash", "nested-loop")
FRAMEWORKS = (TREE, CACQ, STAIRS, SITES)
ROUTINGS = ("selectivity", "ticket", "plan")


@dataclass(frozen=True)
class RecordedStreamSpec:
    """Where a recorded stream is and which column is its time."""

    name: str
    path: Path
    time: str
    timing: Timing


@dataclass(frozen=True)
class Scenario:
    """A checked scenario; paths are resolved against the file's folder."""

    path: Path
    sql: str
    streams: tuple[RecordedStreamSpec, ...] = field(default=())
    batch_us: int | None = None
    """How wide micro-batches are; None: they go by rows."""
    buckets: int = 1
    plan: str | None = None
    join: str = "auto"
    runtime: str = "local"
    late: Path | None = None
    query_file: Path | None = None
    schedule: tuple[Request, ...] = ()
    """What is to happen, in order of the event time it takes effect at."""
    aggregates: tuple[AggregateSpec, ...] = ()
    change_files: tuple[Path, ...] = ()
    """Files with queries to change to."""
    framework: str = "tree"
    routing: str = "selectivity"
    """How an eddy chooses where a batch goes next."""
    adapt: str | None = None
    """What a hopping query may adapt by itself."""
    optimize: str | None = None
    """Whether better plans are looked for, and taken."""
    load: dict[str, Any] | None = None
    """What gives when the query is behind, as written; a query in a file is its text."""
    versions: tuple[str, ...] = ()
    """Queries to change to by number, from 2 on."""
    sites: DeclaredSites = field(default_factory=DeclaredSites)
    """Where streams arrive, and how sites are connected."""


def read_scenario(path: Path) -> Scenario:
    """Read and check a scenario file; the query itself is checked when it is planned."""
    file = _ScenarioFile(path)
    return file.checked(file.read)


class _ScenarioFile(TomlFile):
    """One pass over one scenario."""

    what = "scenario"
    error = ScenarioError

    def read(self) -> Scenario:
        self._change_files: list[Path] = []
        self.known(self.document, TOP_KEYS, "the scenario")
        run = self.table(self.document, "run", required=False)
        self.known(run, RUN_KEYS, "[run]")
        framework, routing = self._framework(run)
        streams = self.streams(STREAM_KEYS, "path and time")
        lateness = self.duration(run, "lateness", "0 s", "[run]")
        return Scenario(
            path=self.file,
            sql=self.sql(),
            streams=self._streams(streams, lateness),
            batch_us=self._batch(run),
            buckets=self.whole(run, "buckets", 1, MOST_BUCKETS),
            plan=self._plan(run, "plan", "[run]"),
            join=self.choice(run, "join", JOINS),
            runtime=self.choice(run, "runtime", RUNTIMES),
            late=self.path(run, "late", "[run]") if "late" in run else None,
            query_file=self.path(self.document, "query", "the scenario") if "query" in self.document else None,
            schedule=self._schedule(),
            aggregates=self.aggregates(),
            change_files=tuple(self._change_files),
            framework=framework,
            routing=routing,
            adapt=self.text(run, "adapt", "[run]") if "adapt" in run else None,
            optimize=self.choice(run, "optimize", tuple(OPTIMIZE)) if "optimize" in run else None,
            load=self._load(),
            versions=tuple(self._versions()),
            sites=read_sites(self, streams, run, framework),
        )

    def _plan(self, table: dict[str, Any], key: str, place: str) -> str | None:
        """Return the plan that is asked for, with what else is asked of a hopping plan after it, in words."""
        said = [self.text(table, key, place)] if key in table else []
        for name in HOP_KEYS:
            if name in table:
                said.append(f"{name}={''.join(self.text(table, name, place).split())}")
        return " ".join(said) if said else None

    def _schedule(self) -> tuple[Request, ...]:
        """Return what is asked to happen, in order of time; those at the same time in the order they are written."""
        entries = self.document.get("at", [])
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            self.refuse(
                "changes are written as [[at]] with time = ... and migrate = ..., change = ... or control = ..."
            )
        asked = [self._at(entry, f"[[at]] number {k + 1}", str(k + 1)) for k, entry in enumerate(entries)]
        return tuple(sorted(asked, key=lambda request: request.at_us or 0))

    def _at(self, entry: dict[str, Any], place: str, identity: str) -> Request:
        what = [key for key in ("migrate", "change", "control") if key in entry]
        if len(what) > 1:
            self.refuse(f"{place} has {' and '.join(what)}; one [[at]] does one thing")
        if not what:
            self.refuse(f"{place} says nothing to do; it needs migrate = ..., change = ... or control = ...")
        kind = what[0]
        self.known(entry, {"migrate": AT_KEYS, "change": CHANGE_KEYS, "control": CONTROL_KEYS}[kind], place)
        if "time" not in entry:
            self.refuse(f"{place} needs time = ..., integer microseconds or a timestamp")
        time = entry["time"]
        if isinstance(time, bool) or not isinstance(time, int | str | dt.datetime):
            self.refuse(f"{place} time must be integer microseconds or a timestamp, not {time!r}")
        number = entry["change"] if kind == "change" and type(entry["change"]) is int else None
        asked = self.text(entry, kind, place) if number is None else self._registered_query(number, place)
        try:
            at_us = parse_instant(time)
            if abs(at_us) >= 2**62:
                self.refuse(f"{place} time is out of range: {time!r}")
            if kind == "control":
                return ControlRequest(asked, at_us, identity)
            if kind == "change":
                options = {k: v for k, v in entry.items() if k in CHANGE_OPTIONS}
                text = self._query(asked, place)
                return ChangeRequest.of(text, options, at_us=at_us, identity=identity)
            strategy = self.text(entry, "strategy", place) if "strategy" in entry else None
            options = {k: v for k, v in entry.items() if k in OPTIONS}
            wanted = self._plan(entry, "migrate", place) or asked
            return MigrationRequest.of(wanted, strategy, options, at_us=at_us, identity=identity)
        except ScenarioError:
            raise
        except MidstreamError as error:
            raise ScenarioError(f"scenario {self.file}: {place}: {error}") from error

    def _registered_query(self, number: int, place: str) -> str:
        """Return a query that `versions` has, by its number: 1 is that of the scenario itself."""
        known = [self.sql(), *self._versions()]
        try:
            return known[check_registered(number, range(1, len(known) + 1)) - 1]
        except MidstreamError as error:
            self.refuse(f"{place} change: {error}")

    def _versions(self) -> list[str]:
        """Return the queries that `versions` has."""
        written = self.document.get("versions", [])
        if not isinstance(written, list) or not all(isinstance(text, str) for text in written):
            self.refuse("versions must be a list of queries to change to, files or SQL text")
        return [self._query(text, "versions") for text in written]

    def _load(self) -> dict[str, Any] | None:
        """Return what gives when the query is behind, as it is written."""
        if "load" not in self.document:
            return None
        asked = self.table(self.document, "load", required=True)
        return asked | (
            {"query": self._query(self.text(asked, "query", "[load]"), "[load]")} if "query" in asked else {}
        )

    def _query(self, text: str, place: str) -> str:
        """Return the query a change goes to: written there, or in a file."""
        if not text.strip().lower().endswith(".sql"):
            return text
        if "\0" in text:
            self.refuse(f"{place} change must name a file, not {text!r}")
        self._change_files.append(self.folder / text.strip())
        file = self.folder / text.strip()
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            self.refuse(f"{place} change: query file {file} cannot be read")

    def _framework(self, run: dict[str, Any]) -> tuple[str, str]:
        framework = self.choice(run, "framework", FRAMEWORKS)
        if "routing" in run and framework != "cacq":
            self.refuse(f'[run] routing is for framework = "cacq", not for "{framework}"')
        return framework, self.choice(run, "routing", ROUTINGS)

    def _streams(self, tables: dict[str, dict[str, Any]], lateness: int) -> tuple[RecordedStreamSpec, ...]:
        out = []
        for name, table in tables.items():
            place = f"[streams.{name}]"
            timing = self.timing(table, place, lateness)
            path = self.path(table, "path", place)
            out.append(RecordedStreamSpec(name, path, self.text(table, "time", place), timing))
        return tuple(out)

    def _batch(self, run: dict[str, Any]) -> int | None:
        if "batch" not in run:
            return None
        batch = self.duration(run, "batch", 0, "[run]")
        if batch <= 0:
            self.refuse(f"[run] batch must be longer than nothing, not {run['batch']!r}")
        return batch
