"""Scenario: a TOML file that names a query, recorded streams and how to run them."""

import tomllib
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from midstream.model.errors import MidstreamError, ScenarioError
from midstream.model.time import parse_duration

TOP_KEYS = ("query", "sql", "streams", "run", "at")
STREAM_KEYS = ("path", "time", "lateness")
RUN_KEYS = ("runtime", "batch", "buckets", "plan", "join", "framework", "lateness", "late")
JOINS = ("auto", "hash", "nested-loop")
FRAMEWORKS = ("tree", "cacq", "stairs", "sites")


@dataclass(frozen=True)
class RecordedStreamSpec:
    """Where a recorded stream is and which column is its time."""

    name: str
    path: Path
    time: str
    lateness_us: int


@dataclass(frozen=True)
class Scenario:
    """A checked scenario; paths are resolved against the file's folder."""

    path: Path
    sql: str
    streams: tuple[RecordedStreamSpec, ...] = field(default=())
    batch_us: int = 1_000_000
    buckets: int = 1
    plan: str | None = None
    join: str = "auto"
    late: Path | None = None
    query_file: Path | None = None


def read_scenario(path: Path) -> Scenario:
    """Read and check a scenario file; the query itself is checked when it is planned."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ScenarioError(f"there is no scenario {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"scenario {path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"scenario {path} is not TOML: {error}") from error
    try:
        return _Reader(path, document).read()
    except ScenarioError:
        raise
    except MidstreamError as error:
        raise ScenarioError(f"scenario {path}: {error}") from error


class _Reader:
    """One pass over one document, so that every message can name the file."""

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self.path = path
        self.folder = path.parent
        self.document = document

    def read(self) -> Scenario:
        self._known(self.document, TOP_KEYS, "the scenario")
        if "at" in self.document:
            self._refuse("[[at]] is not supported yet: this version replays a query without changes")
        run = self._table(self.document, "run", required=False)
        self._known(run, RUN_KEYS, "[run]")
        self._check_runtime(run)
        lateness = self._duration(run, "lateness", "0 s", "[run]")
        return Scenario(
            path=self.path,
            sql=self._sql(),
            streams=self._streams(lateness),
            batch_us=self._batch(run),
            buckets=self._buckets(run),
            plan=self._text(run, "plan", "[run]") if "plan" in run else None,
            join=self._choice(run, "join", JOINS),
            late=self._path(run, "late", "[run]") if "late" in run else None,
            query_file=self._path(self.document, "query", "the scenario") if "query" in self.document else None,
        )

    def _check_runtime(self, run: dict[str, Any]) -> None:
        runtime = self._choice(run, "runtime", ("local", "spark"))
        if runtime == "spark":
            self._refuse('runtime = "spark" is not supported yet; use runtime = "local"')
        framework = self._choice(run, "framework", FRAMEWORKS)
        if framework != "tree":
            self._refuse(f'framework = "{framework}" is not supported yet; use framework = "tree"')

    def _sql(self) -> str:
        if ("query" in self.document) == ("sql" in self.document):
            self._refuse('give the query once: query = "q.sql" or sql = "SELECT ..."')
        if "sql" in self.document:
            return self._text(self.document, "sql", "the scenario")
        file = self._path(self.document, "query", "the scenario")
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ScenarioError(f"scenario {self.path}: query file {file} cannot be read") from error

    def _streams(self, lateness: int) -> tuple[RecordedStreamSpec, ...]:
        tables = self._table(self.document, "streams", required=True)
        if not tables:
            self._refuse("there are no streams; add [streams.NAME] with path and time")
        out = []
        for name, table in tables.items():
            place = f"[streams.{name}]"
            if not isinstance(table, dict):
                self._refuse(f"{place} is not a table with path and time")
            self._known(table, STREAM_KEYS, place)
            own = self._duration(table, "lateness", lateness, place)
            path = self._path(table, "path", place)
            out.append(RecordedStreamSpec(name, path, self._text(table, "time", place), own))
        return tuple(out)

    def _batch(self, run: dict[str, Any]) -> int:
        batch = self._duration(run, "batch", "1 second", "[run]")
        if batch <= 0:
            self._refuse(f"[run] batch must be longer than nothing, not {run['batch']!r}")
        return batch

    def _buckets(self, run: dict[str, Any]) -> int:
        buckets = run.get("buckets", 1)
        if isinstance(buckets, bool) or not isinstance(buckets, int) or not 1 <= buckets <= 4096:
            self._refuse(f"[run] buckets must be a whole number from 1 to 4096, not {buckets!r}")
        return int(buckets)

    def _duration(self, table: dict[str, Any], key: str, default: str | int, place: str) -> int:
        try:
            width = parse_duration(table.get(key, default))
        except MidstreamError as error:
            raise ScenarioError(f"scenario {self.path}: {place} {key}: {error}") from error
        if width < 0:
            self._refuse(f"{place} {key} cannot be negative: {table[key]!r}")
        return width

    def _choice(self, table: dict[str, Any], key: str, allowed: tuple[str, ...]) -> str:
        value = table.get(key, allowed[0])
        if value not in allowed:
            self._refuse(f"[run] {key} is {value!r}; it can be {', '.join(allowed)}")
        return str(value)

    def _text(self, table: dict[str, Any], key: str, place: str) -> str:
        value = table.get(key)
        if value is None:
            self._refuse(f'{place} needs {key} = "..."')
        if not isinstance(value, str):
            self._refuse(f"{place} {key} must be text, not {value!r}")
        return str(value)

    def _path(self, table: dict[str, Any], key: str, place: str) -> Path:
        """Return a path, taken from the scenario's folder when it is relative."""
        text = self._text(table, key, place)
        if not text or "\0" in text:
            self._refuse(f"{place} {key} must name a file, not {text!r}")
        return self.folder / text

    def _table(self, table: dict[str, Any], key: str, required: bool) -> dict[str, Any]:
        value = table.get(key, {})
        if not isinstance(value, dict) or (required and key not in table):
            self._refuse(f"[{key}] is missing" if key not in table else f"[{key}] must be a table")
        return dict(value)

    def _known(self, table: dict[str, Any], keys: tuple[str, ...], place: str) -> None:
        for key in table:
            if key not in keys:
                close = get_close_matches(key, keys, 1)
                hint = f"did you mean '{close[0]}'?" if close else f"it can have {', '.join(keys)}"
                self._refuse(f"{place} has an unknown key '{key}'; {hint}")

    def _refuse(self, sentence: str) -> None:
        raise ScenarioError(f"scenario {self.path}: {sentence}")
