"""Sinks that need Spark: a function of the user's, and any format that Spark can write.

A function is exactly-once if it uses the numbers it is given; other Spark formats are at-least-once.
"""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from midstream.engine.results.merger import Departure
from midstream.live.kept_table import KeptTable
from midstream.live.result_folder import ResultFolder
from midstream.live.sink import BatchSink, Owner, together
from midstream.local.files import check_apart, local_folder, names_file_system
from midstream.model.errors import SinkError
from midstream.model.failpoint import reach

TABLE, DELTA = "table", "delta"
ONLY_APPEND = ("kafka",)
"""Formats that cannot replace what they have."""


class FrameSink:
    """A sink that takes the results of a micro-batch as a DataFrame."""

    def begin(self, owner: Owner) -> None:
        """Do nothing: who writes there is the user's to know."""

    def fence(self, first: int, check_newest: Callable[[], None]) -> None:
        """Do nothing: what is written there has the number of its micro-batch, or comes twice."""

    def write_lines(self, lines: Any, schema: pa.Schema, batch: int, ordered: bool) -> list[Any]:
        """Take the results among the lines of a micro-batch, as Spark has them; return the other lines."""
        lines.frame.persist()
        try:
            self.write_frame(lines.results(schema, ordered), batch)
            return list(lines.others())
        finally:
            lines.frame.unpersist()

    def write_frame(self, results: DataFrame, batch: int) -> None:
        """Take results that lie with the workers."""
        raise NotImplementedError


class FunctionSink(FrameSink):
    """Results handed to a function.

    Of (DataFrame, batch number): once per micro-batch. Of (DataFrame, batch number, hop): of a query that hops once for
    every hop, also an empty answer, with the hop's time in microseconds; all else once per micro-batch, with None. So
    what a function is called with is unique, and the same when a micro-batch comes again.
    """

    def __init__(self, spark: SparkSession, function: Callable[..., Any]) -> None:
        self._spark = spark
        self._function = function
        self._wants_hop = parameters_of(function) == 3

    def write_frame(self, results: DataFrame, batch: int) -> None:
        """Call the function."""
        self._call(results, batch, None)

    def write(self, departures: Sequence[Departure], schema: pa.Schema, batch: int) -> None:
        """Call the function once, or once for what has no hop and once for every hop."""
        parts = by_hop(departures) if self._wants_hop else [(None, [d.rows for d in departures])]
        for hop_us, rows in parts:
            if rows:
                self._call(self._spark.createDataFrame(together(rows)), batch, hop_us)
        if not departures and "_hop" not in schema.names:
            self._call(self._spark.createDataFrame(schema.empty_table()), batch, None)

    def _call(self, results: DataFrame, batch: int, hop_us: int | None) -> None:
        reach("function due")
        if self._wants_hop:
            self._function(results, batch, hop_us)
        else:
            self._function(results, batch)
        reach("function called")


def parameters_of(function: Callable[..., Any]) -> int:
    """Return how many parameters a sink function wants, two or three, or refuse it. Those with a default are its own.

    >>> parameters_of(lambda frame, batch: None), parameters_of(lambda frame, batch, hop: None)
    (2, 3)
    >>> parameters_of(lambda frame, batch, folder="out": None), parameters_of(lambda *given: None)
    (2, 2)
    """
    try:
        given = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # written in C: it does not say
        return 2
    places = [p for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    any_more = any(p.kind is p.VAR_POSITIONAL for p in given)
    wanted = sum(p.default is p.empty for p in places)
    if wanted > 3 or (len(places) < 2 and not any_more):
        raise SinkError("a sink function takes (DataFrame, batch number) or (DataFrame, batch number, hop)")
    return max(wanted, 2)


def by_hop(departures: Sequence[Departure]) -> list[tuple[int | None, list[pa.RecordBatch]]]:
    """Return what leaves at each hop, also when versions answer the same one, and what has no hop: each once."""
    found: dict[int | None, list[pa.RecordBatch]] = {}
    for departure in departures:
        found.setdefault(departure.hop_us, []).append(departure.rows)
    return list(found.items())


class FormatSink(FrameSink):
    """Results in any format Spark can write: appended, and the newest whole answer in place of the one before."""

    def __init__(self, spark: SparkSession, kind: str, options: dict[str, str]) -> None:
        self._spark = spark
        self._kind = kind
        self._options = options

    def write_frame(self, results: DataFrame, batch: int) -> None:
        """Append the results."""
        if self._kind == "console":
            print(f"--- batch {batch}")
            self._show(results)
        else:
            self._save(results, "append")

    def write(self, departures: Sequence[Departure], schema: pa.Schema, batch: int) -> None:
        """Append what is no whole answer; on the console, every hop."""
        if self._kind == "console":
            for hop_us, rows in by_hop(departures):
                print(f"--- batch {batch}" + ("" if hop_us is None else f", hop {hop_us}"))
                self._show(self._spark.createDataFrame(together(rows)))
            return
        whole = [d for d in departures if d.complete]
        others = [d.rows for d in departures if not d.complete and (d.hop_us is None or d.rows.num_rows)]
        if whole:
            answer = [d.rows for d in whole if d.hop_us == whole[-1].hop_us]
            self._save(self._spark.createDataFrame(together(answer)), "overwrite")
        if others or (not whole and "_hop" not in schema.names):
            self._save(self._spark.createDataFrame(together(others) if others else schema.empty_table()), "append")

    def _show(self, frame: DataFrame) -> None:
        frame.show(int(self._options.get("numRows", 20)), truncate=False)

    def _save(self, frame: DataFrame, mode: str) -> None:
        frame.write.format(self._kind).options(**self._options).mode(mode).save()


def sink_of(sink: Any, schema: pa.Schema, spark: SparkSession, checkpoint: Path) -> BatchSink:
    """Make a sink of what a user gives: a folder, a function, or a format with options; `schema` is the output's."""

    def folder(path: str | Path, what: str) -> Path:
        return check_apart(local_folder(path, what), checkpoint)

    hops, signed = "_hop" in schema.names, "_sign" in schema.names
    if isinstance(sink, str | Path):
        return ResultFolder(folder(sink, "the sink"))
    if callable(sink):
        return FunctionSink(spark, sink)
    if not isinstance(sink, dict) or not isinstance(sink.get("format"), str):
        raise SinkError("a sink is a folder, a function of (DataFrame, batch number), or {'format': ..., options}")
    kind, options = sink["format"], {str(k): str(v) for k, v in sink.items() if k != "format"}
    if kind == TABLE and not hops:
        raise SinkError("a table is kept up to date by a hopping query that emits changes: HOP BY ... EMIT DELTA")
    if kind in ("folder", TABLE, DELTA) and "path" not in options:
        raise SinkError(f"a {kind} needs a path" if kind != DELTA else "a Delta table needs a path")
    if kind == DELTA and not names_file_system(options["path"]):  # elsewhere Spark's own connector writes it
        folder(options["path"], "the path of a Delta table")
        return delta_sink(schema, options)
    if kind == TABLE and not signed:
        raise SinkError(
            "a table is kept up to date by changes, and the query emits complete answers: ask for EMIT DELTA, "
            "or give a folder, which holds the newest answer"
        )
    if kind in ONLY_APPEND and hops and not signed:
        raise SinkError(f"{kind} only takes more rows, and a complete answer replaces the last: ask for EMIT DELTA")
    if kind == TABLE:
        return KeptTable(folder(options["path"], "the path of a table"))
    return (
        ResultFolder(folder(options["path"], "the path of a folder"))
        if kind == "folder"
        else FormatSink(spark, kind, options)
    )


def delta_sink(schema: pa.Schema, options: dict[str, str]) -> BatchSink:
    """Make a sink of a Delta table, whose library is an extra."""
    try:
        from midstream.live.delta_table import delta_results
    except ModuleNotFoundError as error:
        raise SinkError("a Delta table needs the delta extra: pip install 'midstream[delta]'") from error
    return delta_results(schema, options)
