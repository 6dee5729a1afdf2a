"""Fleet: the versions of an adopted query as streaming queries, each with its own checkpoint, in one session.

    journal ──▶ input/ ──▶ the user's program ──▶ its micro-batch as Arrow ──▶ output/ ──▶ gate

State: the versions that run in this process, and their folders.
"""

import runpy
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from midstream.engine.world import World
from midstream.live.adopted.build import is_in_file, parts_of
from midstream.live.adopted.gate_log import VersionEntry
from midstream.live.adopted.journal import Journal
from midstream.live.adopted.version_folder import VersionFolder
from midstream.local.disk import on_this_machine
from midstream.local.files import first_line
from midstream.model.errors import MidstreamError
from midstream.model.failpoint import reach
from midstream.model.names import numbers_among
from midstream.spark.adopted.tee import streams_of
from midstream.spark.failure import interruption, readable_by_spark, sentence_of
from midstream.spark.graph import ROCKSDB, arrow_schema
from midstream.spark.offsets import reads_segment
from midstream.spark.query import SparkStream
from midstream.spark.settings import held_settings

Build = Callable[[SparkSession, dict[str, DataFrame]], DataFrame]
Start = Callable[[], Any]
"""Starts a streaming query, and returns it."""
SOURCE = "build.py"
"""The text of a version's program, as it was when it was deployed."""
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
SETTINGS = {
    # Micro-batches are segments: one without rows is a tick, the same for all versions.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stopTimeout": "20000",
}
"""What the streaming queries of versions need; set while one starts."""
LOOK_S = 0.01
"""How often a version looks for its next segment."""
STOPPED_S = 0.2
"""After so long Spark knows as well that a version is being stopped."""
_starting = threading.Lock()
"""The settings are those of the session, which all versions share."""


class SparkVersion:
    """A version: its program, its streaming query, and why it failed."""

    def __init__(
        self, number: int, begin: Callable[["SparkVersion"], Callable[[], Any]], news: Callable[[], None]
    ) -> None:
        self.number = number
        self.schema: pa.Schema | None = None
        """The columns of its output, once it runs."""
        self.failure: str | None = None
        self.folder: VersionFolder | None = None
        self.stopped = False
        self._query: Any = None
        self._begin, self._news = begin, news
        threading.Thread(target=self._run, name=f"midstream-version-{number}", daemon=True).start()

    def _run(self) -> None:
        try:
            start = self._begin(self)
            self._news()
            self._wait_for_segment()
            if not self.stopped:
                self._query = start()
                self._query.awaitTermination()
            why = None if self.stopped else "it has ended"
        except MidstreamError as error:
            why = str(error)
        except Exception as error:
            of_spark = self._query is not None or isinstance(error, PySparkException)
            why = sentence_of(str(error)) if of_spark else f"{first_line(error)} ({type(error).__name__})"
        except SystemExit:
            why = "its program has ended the process"
        if not self.stopped:
            self.failure = why
            self._news()

    def on_batch(self, frame: DataFrame, batch: int) -> None:
        """Run a micro-batch, and keep its answer."""
        folder = self.folder
        if self.stopped:
            time.sleep(STOPPED_S)
            raise interruption()
        if folder is None:
            raise MidstreamError(f"version {self.number} is not running")
        segment = folder.begin(batch)
        if not reads_segment(folder.spark, batch):
            raise MidstreamError("its program reads something beside `streams`, so its micro-batches are no segments")
        reach("version begun")
        with readable_by_spark():
            rows = frame.toArrow()
        reach("version ran")
        if not self.stopped:
            folder.answer(segment, rows.replace_schema_metadata())
        self._news()
        self._wait_for_segment()

    def _wait_for_segment(self) -> None:
        """Wait until there is a segment to read, while Spark looks for none.

        A program may make several sources of the journal. They look one after the other, and would see a segment that
        appears meanwhile in different micro-batches.
        """
        while not self.stopped and not (self.folder is not None and self.folder.feed()):
            time.sleep(LOOK_S)

    def stop(self) -> None:
        """End its streaming query; what runs is cancelled."""
        self.stopped = True
        if self._query is not None:
            try:
                self._query.stop()
            except Exception:  # it hangs: its thread ends with the process, and nobody reads what it answers
                return


class SparkFleet:
    """The versions of one query that run in this process."""

    def __init__(
        self,
        spark: SparkSession,
        place: Path,
        world: World,
        journal: Journal,
        streams: Sequence[SparkStream],
        builds: Mapping[str, Build],
        name: str,
        mode: str,
        news: Callable[[], None],
    ) -> None:
        self._spark, self._place, self._world, self._journal = spark, place, world, journal
        self._streams, self._name, self._mode, self._news = streams, name, mode, news
        self.builds = dict(builds)
        """Programs that are functions of this process, by name."""
        self._versions: dict[int, SparkVersion] = {}
        self._folders: dict[int, VersionFolder] = {}

    def start(self, entry: VersionEntry) -> None:
        """Let a version run; it reads nothing before it has a folder."""
        if entry.number not in self._versions:
            place = self._place_of(entry.number)
            self._world.files.make_folder(place / "input")
            if entry.first is not None:
                self.folder(entry.number, entry.first)
            self._versions[entry.number] = SparkVersion(entry.number, lambda v: self._begin(v, entry), self._news)
            self._versions[entry.number].folder = self._folders.get(entry.number)

    def _begin(self, version: SparkVersion, entry: VersionEntry) -> Start:
        """Call the program of a version; return what starts its streaming query."""
        place = self._place_of(entry.number)
        build = self._build_of(entry, place)
        streams = streams_of(self._spark, on_this_machine(place / "input"), self._streams)
        frame = build(self._spark, streams)
        if not isinstance(frame, DataFrame) or not frame.isStreaming:
            raise MidstreamError(
                f"{entry.build} returns {type(frame).__name__}, not a streaming DataFrame made of `streams`"
            )
        schema = arrow_schema(frame)
        wanted = dict(SETTINGS) if self._spark.conf.get(PROVIDER, "") else {**SETTINGS, PROVIDER: ROCKSDB}
        if "HDFSBacked" in self._spark.conf.get(PROVIDER, ""):  # Spark's own choice where nobody has chosen
            wanted[PROVIDER] = ROCKSDB
        writer = frame.writeStream.queryName(f"{self._name}, version {entry.number}").outputMode(self._mode)
        writer = writer.option("checkpointLocation", on_this_machine(place / "spark")).foreachBatch(version.on_batch)
        version.schema = schema

        def start() -> Any:
            with _starting, held_settings(self._spark, wanted):
                query = writer.start()
            reach("version started")
            return query

        return start

    def _build_of(self, entry: VersionEntry, place: Path) -> Build:
        if not is_in_file(entry.build):
            if entry.build not in self.builds:
                raise MidstreamError(
                    f"version {entry.number} is the function '{entry.build}' of the program that deployed it: "
                    f"give it to engine.adopt(..., builds=[{entry.build}]), or deploy file.py:function"
                )
            return self.builds[entry.build]
        file, function = parts_of(entry.build)
        folder = str(file.absolute().parent)
        if folder not in sys.path:
            sys.path.append(folder)  # what the file imports from beside it
        found: Build = runpy.run_path(str(place / SOURCE), run_name="midstream_build")[function]
        return found

    def stop(self, number: int) -> None:
        """End a version, and forget what it has written."""
        version = self._versions.pop(number, None)
        self._folders.pop(number, None)

        def end() -> None:
            if version is not None:
                version.stop()
            shutil.rmtree(self._place_of(number), ignore_errors=True)

        if version is not None:
            version.stopped = True
        threading.Thread(target=end, name=f"midstream-ends-version-{number}", daemon=True).start()

    def stop_all(self) -> None:
        """End all versions of this process; what they have written stays."""
        for version in self._versions.values():
            version.stop()

    def folder(self, number: int, first: int) -> VersionFolder:
        """Return the folder of a version; from here on it may read."""
        if number not in self._folders:
            self._folders[number] = VersionFolder(self._place_of(number), self._world, self._journal, first)
            if number in self._versions:
                self._versions[number].folder = self._folders[number]
        return self._folders[number]

    def schema(self, number: int) -> pa.Schema | None:
        """Return the columns of a version once it runs."""
        return self._versions[number].schema if number in self._versions else None

    def failure(self, number: int) -> str | None:
        """Return why a version has failed."""
        return self._versions[number].failure if number in self._versions else None

    def keep_source(self, number: int, source: str) -> None:
        """Keep the text of a version's program."""
        place = self._place_of(number)
        self._world.files.make_folder(place)
        self._world.put(place / SOURCE, source.encode())

    def keep_only(self, numbers: set[int]) -> None:
        """Forget what a crash has left of other versions."""
        for number in numbers_among(self._world.files.names(self._place), "", 4):
            if number not in numbers:
                self._world.files.remove_folder(self._place_of(number))

    def _place_of(self, number: int) -> Path:
        return self._place / f"{number:04d}"
