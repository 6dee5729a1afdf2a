"""Scenario: a TOML file that names a query, recorded streams and how to run them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from midstream.model.errors import MidstreamError, ScenarioError
from midstream.runtime.toml_file import TomlFile

TOP_KEYS = ("query", "sql", "streams", "run", "at")
STREAM_KEYS = ("path", "time", "lateness")
RUN_KEYS = ("runtime", "batch", "buckets", "plan", "join", "framework", "lateness", "late")
RUNTIMES = ("local", "spark")
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
    runtime: str = "local"
    late: Path | None = None
    query_file: Path | None = None


def read_scenario(path: Path) -> Scenario:
    """Read and check a scenario file; the query itself is checked when it is planned."""
    file = _ScenarioFile(path)
    try:
        return file.read()
    except ScenarioError:
        raise
    except MidstreamError as error:
        raise ScenarioError(f"scenario {path}: {error}") from error


class _ScenarioFile(TomlFile):
    """One pass over one scenario."""

    what = "scenario"
    error = ScenarioError

    def read(self) -> Scenario:
        self.known(self.document, TOP_KEYS, "the scenario")
        if "at" in self.document:
            self.refuse("[[at]] is not supported yet: this version replays a query without changes")
        run = self.table(self.document, "run", required=False)
        self.known(run, RUN_KEYS, "[run]")
        self._check_framework(run)
        lateness = self.duration(run, "lateness", "0 s", "[run]")
        return Scenario(
            path=self.file,
            sql=self.sql(),
            streams=self._streams(lateness),
            batch_us=self._batch(run),
            buckets=self.buckets(run),
            plan=self.text(run, "plan", "[run]") if "plan" in run else None,
            join=self.choice(run, "join", JOINS),
            runtime=self.choice(run, "runtime", RUNTIMES),
            late=self.path(run, "late", "[run]") if "late" in run else None,
            query_file=self.path(self.document, "query", "the scenario") if "query" in self.document else None,
        )

    def _check_framework(self, run: dict[str, Any]) -> None:
        framework = self.choice(run, "framework", FRAMEWORKS)
        if framework != "tree":
            self.refuse(f'framework = "{framework}" is not supported yet; use framework = "tree"')

    def _streams(self, lateness: int) -> tuple[RecordedStreamSpec, ...]:
        out = []
        for name, table in self.streams(STREAM_KEYS, "path and time").items():
            place = f"[streams.{name}]"
            own = self.duration(table, "lateness", lateness, place)
            path = self.path(table, "path", place)
            out.append(RecordedStreamSpec(name, path, self.text(table, "time", place), own))
        return tuple(out)

    def _batch(self, run: dict[str, Any]) -> int:
        batch = self.duration(run, "batch", "1 second", "[run]")
        if batch <= 0:
            self.refuse(f"[run] batch must be longer than nothing, not {run['batch']!r}")
        return batch
