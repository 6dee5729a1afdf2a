"""A running query on Spark: the live run, with Structured Streaming to bring its micro-batches."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from midstream.engine.results.schema import output_schema
from midstream.live.run import LOOK_S, EndOfRun, LiveRun
from midstream.live.settings import LiveSettings
from midstream.live.shared_memory import forget_query, hold_query
from midstream.local.disk import THIS_MACHINE
from midstream.model.errors import MidstreamError
from midstream.model.failpoint import reach
from midstream.spark.failure import readable_by_spark, sentence_of, why_failed
from midstream.spark.graph import Input, labels_of, output_lines
from midstream.spark.lines import SparkLines
from midstream.spark.offsets import keep_planned, planned_batch
from midstream.spark.query import PlannedOnSpark
from midstream.spark.session import check_session, one_sentence
from midstream.spark.settings import with_settings
from midstream.spark.sinks import sink_of

BEAT_S = 5.0
"""How often a run shows that it lives."""
GRACE_S = 30.0
"""How long the micro-batch after the last one may take to notice that the run is over."""
PATIENCE_S = 5.0
"""How long mail waits for rows to bring a micro-batch, where Spark does not say that there are none."""
PATTERN = frozenset("{}[]*?\\")
"""Signs of a pattern in a path."""
CONTROL_ROWS = {
    "pathGlobFilter": "*.json", "maxFileAge": "36500d", "recursiveFileLookup": "true", "ignoreMissingFiles": "true",
}  # fmt: skip
"""How the control log is read: nothing else that lies there, and no row is too old, whatever clocks say. Folders are
nobody's, whatever their names; what is gone or cannot be opened is passed over (the driver names it)."""


class SparkRun(LiveRun):
    """A query that runs on Spark until it is stopped, fails, or its sources end."""

    def __init__(self, query: PlannedOnSpark, sink: Any, settings: LiveSettings, trigger: dict[str, Any]) -> None:
        check_path(settings.checkpoint)
        check_session(query.spark)
        super().__init__(query, settings, THIS_MACHINE)
        self._checkpoint.check_place()
        self._spark, self._frames = query.spark, query.streams
        self._trigger = trigger
        into = sink_of(sink, output_schema(self.plan), self._spark, settings.checkpoint)
        self._open(into, labels_of(self._spark, self.buckets))
        self._shared = self.who["id"]
        with contextlib.suppress(OSError):  # without it states are rebuilt, and buckets say why
            hold_query(self._shared)
        self._over = threading.Event()
        self._syncs = ThreadPoolExecutor(1, f"midstream-{self.name}-sync")
        """Lets what a micro-batch reads outlast a power cut, while the workers are at it."""
        self._mail_since: tuple[int | None, float] | None = None
        """The micro-batch whose mail waits, and since when."""
        self._done = False
        """The micro-batch that carried a stop is committed."""
        try:
            self._begin(lambda: planned_batch(self._checkpoint.spark))
        except BaseException:
            self._checkpoint.release()
            raise
        try:
            with one_sentence():
                self._query = self._start_query()
            reach("query started")
        except BaseException as error:
            self._end(str(error) or type(error).__name__)
            raise
        self._watch = threading.Thread(target=self._wait_for_end, name=f"midstream-{self.name}", daemon=True)
        self._watch.start()
        threading.Thread(target=self._beat, name=f"midstream-{self.name}-heartbeat", daemon=True).start()

    def _start_query(self) -> StreamingQuery:
        spark = self._spark
        read = {k: stream for k, stream in enumerate(self._frames) if stream.schema.name in self.catalog.read}
        inputs = [Input(stream.schema, position, stream.frame) for position, stream in read.items()]
        folder, place = self.places()
        controls = spark.readStream.options(**CONTROL_ROWS).text(folder)
        with with_settings(spark, self.buckets):
            mail = None if self.live.mail is None else self.live.mail.box
            lines = output_lines(self.live.versions.wanted, inputs, self.bucket_spec(), self._shared, controls, mail)
            writer = lines.writeStream.queryName(self.name).foreachBatch(self._on_lines)
            writer = writer.option("checkpointLocation", place)
            return self._triggered(writer).start()

    def _triggered(self, writer: DataStreamWriter) -> DataStreamWriter:
        """Set when micro-batches are due, as Spark says it."""
        try:
            return writer.trigger(**self._trigger) if self._trigger else writer
        except TypeError as error:
            raise MidstreamError(f"Spark has no trigger {self._trigger!r}; one is {{'availableNow': True}}") from error

    def _on_lines(self, lines: DataFrame, number: int) -> None:
        # While the workers are at it: the disk is waited for ten times or more.
        kept = self._syncs.submit(keep_planned, self._checkpoint.spark, number)
        with readable_by_spark():
            self.on_batch(SparkLines(lines, kept.result), number)
            kept.result()
        reach("batch returned")  # Spark commits next

    def _beat(self) -> None:
        """Show now and then that this process lives."""
        while not self._over.wait(BEAT_S):
            try:
                self._checkpoint.beat()
            except OSError:
                continue  # a full disk: the lock says that it lives

    def _wait_for_end(self) -> None:
        """Wait until the query ends, and start it again where buckets have to learn of something; write the status."""
        try:
            failure = self._watched()
        except Exception as error:  # Spark itself is gone
            failure = None if self._done else f"Spark is gone: {sentence_of(str(error))}"
        self._over.set()
        reach("query over")
        try:
            self._end(failure)
        finally:
            self._syncs.shutdown(wait=False)
            if failure is not None:  # it may wait for rows still, in a session that was stopped
                threading.Thread(target=self._end_query, name=f"midstream-{self.name}-end", daemon=True).start()
            if failure is None:
                forget_query(self._shared)

    def _end_query(self) -> None:
        """Let Spark's query end, if it has not; nobody waits for that."""
        with contextlib.suppress(Exception):
            self._query.stop()

    def _watched(self) -> str | None:
        """Watch the query to its end; return why it failed, if it did."""
        self._leave_off_in_time(frozenset())
        if self.ends_by_itself:
            # It has read only the control rows that were there when it started.
            sent: frozenset[str] = frozenset()
            while self._is_to_go_on(sent) and self._why_failed() is None and not self._asked_to_end():
                sent = self.live.unread
                self.live.nudge()
                self._leaves_off = False
                self._query = self._start_query()
                self._leave_off_in_time(sent)
        return self._why_failed()

    def _is_to_go_on(self, sent: frozenset[str]) -> bool:
        """Return whether there is something to read for a query that has read what was there when it started."""
        return bool(self.live.unread - sent) or self.live.mail_waits()

    def _why_failed(self) -> str | None:
        """Return why the query failed; what happens to it once the run is over is no failure."""
        failure = self._query.exception()
        if failure is None or self._done or EndOfRun.__name__ in str(failure):
            return None
        return why_failed(str(failure), self._checkpoint.spark)

    def _leave_off_in_time(self, sent: frozenset[str]) -> None:
        """Let the query end after the micro-batch that carried a stop, or be started again; it reads what was sent.

        Nothing that runs is cancelled: a micro-batch that comes after the last one does not run (`EndOfRun`), and where
        none comes there is nothing to cancel.
        """
        clock, done_s = self._world.clock, None
        looked_s = clock.elapsed_s()
        while self._query.isActive:
            if clock.elapsed_s() - looked_s > BEAT_S:
                check_session(self._spark)  # without rows Spark does not notice
                looked_s = clock.elapsed_s()
            progress = None if self._end_after is None else self._query.lastProgress
            if self._end_after is not None and progress is not None and progress["batchId"] >= self._end_after:
                self._done = True
                done_s = clock.elapsed_s() if done_s is None else done_s
                if not self._query.status["isTriggerActive"] or clock.elapsed_s() - done_s > GRACE_S:
                    self._query.stop()
            if (self.ends_by_itself and self.live.unread - sent) or self._asked_to_end():
                self._leaves_off = True
            if self._end_after is None and not self.ends_by_itself and self.live.mail_waits():
                self._nudge()
            clock.pause(LOOK_S)

    def _nudge(self) -> None:
        """Let a micro-batch come for mail that waits, where none would: Spark has looked, and there were no rows.

        Should Spark not say so, one comes in a while.
        """
        now_s, batch = self._world.clock.elapsed_s(), self.live.mail_of()
        if self._mail_since is None or self._mail_since[0] != batch:
            self._mail_since = batch, now_s
        status = self._query.status
        idle = not status["isTriggerActive"] and not status["isDataAvailable"]
        if idle or now_s - self._mail_since[1] > PATIENCE_S:
            self.live.nudge()

    def lives(self) -> bool:
        """Return whether micro-batches may still come."""
        return self._watch.is_alive()

    def progress(self) -> list[Any]:
        """Return Spark's own reports of the latest micro-batches."""
        return list(self._query.recentProgress)

    def stop(self, drain: bool = False, timeout_s: float = 60.0) -> None:
        """Stop through the control log, after the micro-batch that reads it; `drain`: waiting rows take part first.

        Nothing is cancelled: when a micro-batch takes longer than `timeout_s`, a MidstreamError says so, and the query
        ends after it nevertheless.
        """
        if drain and self.ends_by_itself:
            raise MidstreamError(f"query '{self.name}' ends by itself and cannot be drained while it runs")
        if self._watch.is_alive():
            self.ask_to_end(drain)
            self._watch.join(timeout_s)
            if self._watch.is_alive():
                raise MidstreamError(
                    f"query '{self.name}' has not stopped within {timeout_s:g} s: it was asked to, and ends after the "
                    "micro-batch that reads it; wait() waits for that"
                )

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the query ends; return whether it has. A failure is raised."""
        self._watch.join(timeout_s)
        if self._watch.is_alive():
            return False
        if self._failure is not None:
            raise MidstreamError(f"query '{self.name}' failed: {self._failure}")
        return True


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks a session runs at once."""
    check_session(spark)
    return int(spark.sparkContext.defaultParallelism)


def check_path(checkpoint: Path) -> None:
    """Refuse a path that Spark would read as a pattern: it would look for control rows elsewhere, or nowhere."""
    if PATTERN & set(str(checkpoint.absolute())):
        raise MidstreamError(
            f"checkpoint {checkpoint.absolute()} has one of {{ }} [ ] * ? \\ in its path, "
            "which Spark reads as a pattern; give it a path without"
        )
