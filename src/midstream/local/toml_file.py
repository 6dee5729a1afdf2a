"""A checked TOML file: every value is asked for by key, place and kind, and every complaint names the file."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from midstream.local.environment import with_variables
from midstream.model.errors import MidstreamError
from midstream.model.time import parse_duration
from midstream.model.timing import Timing

T = TypeVar("T")
AGGREGATE_KEYS = ("file", "function", "returns")
TIMING_KEYS = ("lateness", "idle", "ahead")


@dataclass(frozen=True)
class AggregateSpec:
    """An aggregate written in Python: where it is, and the SQL type of what it returns."""

    name: str
    file: Path
    function: str
    returns: str


class TomlFile:
    """A TOML document and the file it came from. `what` is how messages call it; relative paths start at its folder.

    Variables of the environment in it have their values (`environment.py`).
    """

    what = "file"
    error: type[MidstreamError] = MidstreamError

    def __init__(self, path: Path) -> None:
        self.file = path
        self.folder = path.parent
        try:
            read: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise self.error(f"there is no {self.what} {path}") from error
        except (OSError, UnicodeDecodeError) as error:
            raise self.error(f"{self.what} {path} cannot be read: {error}") from error
        except tomllib.TOMLDecodeError as error:
            raise self.error(f"{self.what} {path} is not TOML: {error}") from error
        self.document: dict[str, Any] = with_variables(read, "", self.refuse)

    def checked(self, read: Callable[[], T]) -> T:
        """Return what reading the document gives; whatever is wrong with it names the file."""
        try:
            return read()
        except self.error:
            raise
        except MidstreamError as error:
            raise self.error(f"{self.what} {self.file}: {error}") from error

    def refuse(self, sentence: str) -> NoReturn:
        """Raise the sentence with the name of the file before it."""
        raise self.error(f"{self.what} {self.file}: {sentence}")

    def known(self, table: dict[str, Any], keys: tuple[str, ...], place: str) -> None:
        """Refuse keys that mean nothing here, with the one that may have been meant."""
        for key in table:
            if key not in keys:
                close = get_close_matches(key, keys, 1)
                hint = f"did you mean '{close[0]}'?" if close else f"it can have {', '.join(keys)}"
                self.refuse(f"{place} has an unknown key '{key}'; {hint}")

    def sql(self) -> str:
        """Return the query, given once: as text or as a file."""
        if ("query" in self.document) == ("sql" in self.document):
            self.refuse('give the query once: query = "q.sql" or sql = "SELECT ..."')
        if "sql" in self.document:
            return self.text(self.document, "sql", f"the {self.what}")
        file = self.path(self.document, "query", f"the {self.what}")
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise self.error(f"{self.what} {self.file}: query file {file} cannot be read") from error

    def streams(self, keys: tuple[str, ...], needs: str) -> dict[str, dict[str, Any]]:
        """Return the table of each stream, in declaration order."""
        tables = self.table(self.document, "streams", required=True)
        if not tables:
            self.refuse(f"there are no streams; add [streams.NAME] with {needs}")
        for name, table in tables.items():
            if not isinstance(table, dict):
                self.refuse(f"[streams.{name}] is not a table with {needs}")
            self.known(table, keys, f"[streams.{name}]")
        return tables

    def aggregates(self) -> tuple[AggregateSpec, ...]:
        """Return the aggregates written in Python: [aggregates.NAME] with file, function and returns."""
        out = []
        for name, table in self.table(self.document, "aggregates", required=False).items():
            place = f"[aggregates.{name}]"
            if not isinstance(table, dict):
                self.refuse(f"{place} is not a table with file, function and returns")
            self.known(table, AGGREGATE_KEYS, place)
            function = self.text(table, "function", place) if "function" in table else name
            file = self.path(table, "file", place)
            out.append(AggregateSpec(name, file, function, self.text(table, "returns", place)))
        return tuple(out)

    def whole(self, table: dict[str, Any], key: str, default: int, most: int) -> int:
        """Return a whole number of [run] from 1 to `most`."""
        value = table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            self.refuse(f"[run] {key} must be a whole number from 1 to {most}, not {value!r}")
        return int(value)

    def duration(self, table: dict[str, Any], key: str, default: str | int, place: str) -> int:
        """Return a duration in microseconds."""
        try:
            width = parse_duration(table.get(key, default))
        except MidstreamError as error:
            raise self.error(f"{self.what} {self.file}: {place} {key}: {error}") from error
        if width < 0:
            self.refuse(f"{place} {key} cannot be negative: {table[key]!r}")
        return width

    def timing(self, table: dict[str, Any], place: str, lateness: str | int = 0) -> Timing:
        """Return what is allowed of a stream's times: lateness, idle and ahead."""
        spans = {f"{key}_us": self.duration(table, key, 0, place) for key in ("idle", "ahead") if key in table}
        if spans.get("ahead_us") == 0:
            self.refuse(f"{place} ahead must be longer than nothing, not {table['ahead']!r}")
        return Timing(self.duration(table, "lateness", lateness, place), **spans)

    def choice(self, table: dict[str, Any], key: str, allowed: tuple[str, ...]) -> str:
        """Return one of the allowed words of [run], the first unless given."""
        value = table.get(key, allowed[0])
        if value not in allowed:
            self.refuse(f"[run] {key} is {value!r}; it can be {', '.join(allowed)}")
        return str(value)

    def text(self, table: dict[str, Any], key: str, place: str) -> str:
        """Return a text that must be there."""
        value = table.get(key)
        if value is None:
            self.refuse(f'{place} needs {key} = "..."')
        if not isinstance(value, str):
            self.refuse(f"{place} {key} must be text, not {value!r}")
        return str(value)

    def path(self, table: dict[str, Any], key: str, place: str) -> Path:
        """Return a path, taken from the file's folder when it is relative."""
        text = self.text(table, key, place)
        if not text or "\0" in text:
            self.refuse(f"{place} {key} must name a file, not {text!r}")
        return self.folder / text

    def table(self, table: dict[str, Any], key: str, required: bool) -> dict[str, Any]:
        """Return a table inside another one."""
        value = table.get(key, {})
        if not isinstance(value, dict) or (required and key not in table):
            self.refuse(f"[{key}] is missing" if key not in table else f"[{key}] must be a table")
        return dict(value)
