"""Pipeline file: a TOML file that names a query, its sources and its sink by Spark format, and how to run it.

Reading it needs no Spark. What only Spark knows (formats, schemas) is checked when the query starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from midstream.engine.planning.optimizing import MODES as OPTIMIZE
from midstream.engine.planning.optimizing import Optimizing
from midstream.live.kept import Retention
from midstream.live.settings import MOST_WAITING
from midstream.local.files import local_folder, names_file_system
from midstream.local.loop import MOST_BUCKETS
from midstream.local.scenario import JOINS
from midstream.local.sites import RUN_KEYS as SITES_KEYS
from midstream.local.sites import read_sites
from midstream.local.toml_file import TIMING_KEYS, AggregateSpec, TomlFile
from midstream.model.errors import MidstreamError, PipelineError
from midstream.model.timing import Timing
from midstream.operators.build import SITES
from midstream.sites.declaration import DeclaredSites

TOP_KEYS = (
    "name",
    "query",
    "sql",
    "checkpoint",
    "streams",
    "sink",
    "run",
    "aggregates",
    "spark",
    "retention",
    "links",
    "load",
)
STREAM_KEYS = ("format", "time", "site", *TIMING_KEYS, "schema", "path", "options")
SINK_KEYS = ("format", "path", "options")
RUN_KEYS = (
    "buckets",
    "plan",
    "join",
    "ordered",
    "trigger",
    "cores",
    "master",
    "also_read",
    "adapt",
    "optimize",
    "waiting",
    "framework",
)
FRAMEWORKS = ("tree", SITES)
FILE_FORMATS = ("parquet", "orc", "json", "csv", "avro", "xml")
"""Formats that Spark reads as streams of files: they need a path, and a schema before there is any file."""
AVAILABLE_NOW = "available-now"


@dataclass(frozen=True)
class SparkStreamSpec:
    """How Spark reads a stream, and which column is its time."""

    name: str
    format: str
    time: str
    timing: Timing
    schema: str | None
    options: dict[str, str]


@dataclass(frozen=True)
class PipelineFile:
    """A checked pipeline; paths are resolved against the file's folder."""

    path: Path
    name: str
    sql: str
    checkpoint: Path
    streams: tuple[SparkStreamSpec, ...]
    sink: dict[str, str]
    """`format`, and the options of the sink."""
    buckets: int | None = None
    plan: str | None = None
    join: str = "auto"
    ordered: bool = False
    adapt: str | None = None
    """What a hopping query may adapt by itself."""
    optimize: str | Optimizing | None = None
    """Whether better plans are looked for, and taken."""
    waiting: int = MOST_WAITING
    """Rows that may wait for other streams."""
    trigger: dict[str, Any] = field(default_factory=dict)
    """What Spark's `trigger` takes."""
    master: str | None = None
    also_read: tuple[str, ...] = ()
    """Streams that the query does not read, but later versions of it may."""
    aggregates: tuple[AggregateSpec, ...] = ()
    spark: dict[str, str] = field(default_factory=dict)
    """Settings of the Spark session."""
    retention: dict[str, int] = field(default_factory=dict)
    """How much is kept of what grows with the age of the query."""
    load: dict[str, Any] | None = None
    """What gives when the query is behind, as written."""
    sites: DeclaredSites | None = None
    """Where streams arrive, if they are joined there."""


def read_pipeline(path: Path) -> PipelineFile:
    """Read and check a pipeline file; the query itself is checked when it is planned."""
    file = _PipelineToml(path)
    return file.checked(file.read)


class _PipelineToml(TomlFile):
    """One pass over one pipeline."""

    what = "pipeline"
    error = PipelineError

    def read(self) -> PipelineFile:
        self.known(self.document, TOP_KEYS, "the pipeline")
        run = self.table(self.document, "run", required=False)
        self.known(run, (*RUN_KEYS, *SITES_KEYS), "[run]")
        tables = self.streams(STREAM_KEYS, "format and time")
        streams = tuple(self._stream(n, t) for n, t in tables.items())
        framework = self.choice(run, "framework", FRAMEWORKS)
        sites = read_sites(self, tables, run, framework)
        checkpoint, sink = self._folder(self.document, "checkpoint", "the pipeline"), self._sink()
        self._check_apart(checkpoint, sink.get("path"), streams)
        return PipelineFile(
            path=self.file,
            name=self._name(),
            sql=self.sql(),
            checkpoint=checkpoint,
            streams=streams,
            sink=sink,
            buckets=self.whole(run, "buckets", 1, MOST_BUCKETS) if "buckets" in run else None,
            plan=self.text(run, "plan", "[run]") if "plan" in run else None,
            join=self.choice(run, "join", JOINS),
            ordered=self._flag(run, "ordered"),
            adapt=self.text(run, "adapt", "[run]") if "adapt" in run else None,
            optimize=self.choice(run, "optimize", tuple(OPTIMIZE)) if "optimize" in run else None,
            waiting=self.whole(run, "waiting", MOST_WAITING, 2**40),
            trigger=self._trigger(run),
            master=self._master(run),
            also_read=self._also_read(run, [s.name for s in streams]),
            aggregates=self.aggregates(),
            spark=self._options(self.document, "spark", "[spark]"),
            retention=self._retention(),
            load=self.table(self.document, "load", required=True) if "load" in self.document else None,
            sites=sites if framework == SITES else None,
        )

    def _name(self) -> str:
        name = self.text(self.document, "name", "the pipeline") if "name" in self.document else self.file.stem
        if not name.strip():
            self.refuse("the pipeline name must not be empty")
        return name

    def _stream(self, name: str, table: dict[str, Any]) -> SparkStreamSpec:
        place = f"[streams.{name}]"
        kind = self._format(table, place)
        options = self._options_and_path(table, place)
        schema = self.text(table, "schema", place) if "schema" in table else None
        if kind in FILE_FORMATS and "path" not in options:
            self.refuse(f'{place} needs path = "...", the folder its files come into')
        if kind in FILE_FORMATS and schema is None:
            self.refuse(
                f'{place} needs schema = "...", such as "ts TIMESTAMP, k BIGINT": {kind} files have none to begin'
            )
        time = self.text(table, "time", place)
        return SparkStreamSpec(name, kind, time, self.timing(table, place), schema, options)

    def _sink(self) -> dict[str, str]:
        table = self.table(self.document, "sink", required=True)
        self.known(table, SINK_KEYS, "[sink]")
        kind = self._format(table, "[sink]")
        options = self._options_and_path(table, "[sink]")
        if "format" in options:
            self.refuse("[sink.options] cannot have format; it stands in [sink]")
        if kind in ("folder", "table", "delta"):
            if "path" not in options:
                self.refuse('[sink] needs path = "...", the folder the results go to')
            if kind != "delta" or not names_file_system(options["path"]):
                local_folder(options["path"], "[sink] path")
        return {"format": kind, **options}

    def _check_apart(self, checkpoint: Path, sink: str | None, streams: Sequence[SparkStreamSpec]) -> None:
        """Refuse one folder for two things: what is written into one would be read, or be among what others keep."""
        taken = {checkpoint.resolve(): "checkpoint"}
        given = [] if sink is None else [("[sink] path", sink)]
        given += [(f"[streams.{s.name}] path", s.options["path"]) for s in streams if s.format in FILE_FORMATS]
        for what, path in given:
            other = taken.get(Path(path).resolve())
            if other is not None:
                self.refuse(f"{what} and {other} are one folder, {path}; give each its own")
            if what == "[sink] path":  # several streams may read one folder
                taken[Path(path).resolve()] = what

    def _format(self, table: dict[str, Any], place: str) -> str:
        kind = self.text(table, "format", place).strip()
        if not kind:
            self.refuse(f"{place} format is empty")
        return kind

    def _options_and_path(self, table: dict[str, Any], place: str) -> dict[str, str]:
        """Return the options as Spark wants them; `path` may stand beside the format or among them."""
        options = self._options(table, "options", f"{place[:-1]}.options]")
        if "path" in table:
            if "path" in options:
                self.refuse(f"{place} gives path twice")
            options["path"] = self.text(table, "path", place)
        if "path" in options:
            options["path"] = self._place(options["path"], f"{place} path")
        return options

    def _options(self, table: dict[str, Any], key: str, place: str) -> dict[str, str]:
        """Return a table of plain values as text."""
        value = table.get(key, {})
        if not isinstance(value, dict):
            self.refuse(f"{place} must be a table")
        options = {}
        for name, held in _flatten(value).items():
            if not isinstance(held, str | int | float):
                self.refuse(f"{place} {name} must be text, a number, true or false, not {held!r}")
            options[name] = str(held).lower() if isinstance(held, bool) else str(held)
        return options

    def _place(self, text: str, what: str) -> str:
        """Resolve a path; one that names a file system, such as s3a://, stays as it is."""
        if not text or "\0" in text:
            self.refuse(f"{what} must name a folder, not {text!r}")
        return text if names_file_system(text) else str((self.folder / text).absolute())

    def _folder(self, table: dict[str, Any], key: str, place: str) -> Path:
        return local_folder(self._place(self.text(table, key, place), f"{place} {key}"), key)

    def _flag(self, run: dict[str, Any], key: str) -> bool:
        value = run.get(key, False)
        if not isinstance(value, bool):
            self.refuse(f"[run] {key} must be true or false, not {value!r}")
        return value

    def _also_read(self, run: dict[str, Any], streams: list[str]) -> tuple[str, ...]:
        names = run.get("also_read", [])
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            self.refuse(f"[run] also_read must be a list of streams, not {names!r}")
        for name in names:
            if name not in streams:
                self.refuse(f"[run] also_read names '{name}'; the streams are {', '.join(streams)}")
        return tuple(names)

    def _trigger(self, run: dict[str, Any]) -> dict[str, Any]:
        if run.get("trigger") == AVAILABLE_NOW:
            return {"availableNow": True}
        try:
            width_us = self.duration(run, "trigger", "1 second", "[run]")
        except PipelineError as error:
            raise PipelineError(f'{error}, or "{AVAILABLE_NOW}"') from error
        return {"processingTime": f"{max(width_us // 1000, 0)} milliseconds"}

    def _retention(self) -> dict[str, int]:
        given = self.table(self.document, "retention", required=False)
        try:
            Retention.of(given)
        except MidstreamError as error:
            self.refuse(f"[retention]: {error}")
        return given

    def _master(self, run: dict[str, Any]) -> str | None:
        if "cores" in run and "master" in run:
            self.refuse("[run] has cores and master; cores are for a master on this machine")
        if "cores" in run:
            return f"local[{self.whole(run, 'cores', 1, 1024)}, 4]"
        return self.text(run, "master", "[run]") if "master" in run else None


def _flatten(table: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Return a table of tables with dotted names: TOML reads `spark.ui.enabled = true` as three of them.

    >>> _flatten({"kafka": {"bootstrap": {"servers": "host:9092"}}, "subscribe": "a"})
    {'kafka.bootstrap.servers': 'host:9092', 'subscribe': 'a'}
    """
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flatten(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value}
    return flat
