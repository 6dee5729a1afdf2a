"""Version folder: what one version of an adopted query reads and what it has answered, segment by segment.

    journal ──▶ input/00000012.parquet ──▶ its micro-batch ──▶ output/00000012.parquet ──▶ gate

The next segment is given to it when it has answered the last one, and while it does not look for any. So there is
never more than one that it has not read, and its micro-batches are the segments, in order, after any crash. State: how
far it was fed, how far it answered.
"""

from pathlib import Path
from threading import RLock

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.engine.world import World
from midstream.live.adopted.journal import ENDING, Journal, file_name
from midstream.live.result_folder import parquet
from midstream.model.errors import MidstreamError
from midstream.model.failpoint import reach
from midstream.model.format import whole
from midstream.model.names import numbers_among

_DO = "roll the version back, or start with a new checkpoint"


class VersionFolder:
    """The folder of a version. Invariant: `answered` is `fed`, or one segment behind it."""

    def __init__(self, folder: Path, world: World, journal: Journal, first: int) -> None:
        self.folder = folder
        self.first = first
        """The first segment it reads."""
        self._world = world
        self._journal = journal
        self._lock = RLock()
        self._limit: int | None = None
        self._forgotten = 0
        for place in (self.input, self.output):
            world.files.make_folder(place)
        self.fed = max(self._numbers(self.input), default=first - 1)
        """The last segment it was given."""
        self.answered = max(self._numbers(self.output), default=first - 1)
        """The last segment it has answered."""

    @property
    def input(self) -> Path:
        """Return the folder it reads."""
        return self.folder / "input"

    @property
    def output(self) -> Path:
        """Return the folder of its answers."""
        return self.folder / "output"

    @property
    def spark(self) -> Path:
        """Return Spark's checkpoint of it."""
        return self.folder / "spark"

    def feed(self) -> bool:
        """Give it the next segment, if it waits for one and there is one; return whether it has one to read."""
        with self._lock:
            last = self._journal.last if self._limit is None else min(self._limit, self._journal.last)
            if self.answered >= self.fed and self.fed < last:
                self._journal.link(self.fed + 1, self.input / file_name(self.fed + 1))
                self.fed += 1
            return self.fed > self.answered

    def feed_up_to(self, limit: int | None) -> None:
        """Give it nothing after a segment; None: everything."""
        with self._lock:
            self._limit = limit

    def begin(self, batch: int) -> int:
        """Return the segment that a micro-batch of this version reads; those before it were read for good."""
        segment = self.first + batch
        with self._lock:
            if segment > self.fed:
                said = f"micro-batch {batch} has no segment of its own"
                raise MidstreamError(f"{said}: the program reads something beside `streams`")
            for number in self._numbers(self.input):
                if number < segment:
                    self._world.files.remove(self.input / file_name(number))
        return segment

    def answer(self, segment: int, rows: pa.Table) -> None:
        """Keep what a micro-batch has answered; one that comes again has answered already."""
        with self._lock:
            if segment > self.answered:
                file = self.output / file_name(segment)
                self._world.put(file, parquet(rows), point=lambda: reach("answer staged half"))
                self.answered = segment
                reach("answer staged")

    def read(self, segment: int) -> pa.Table:
        """Return what it has answered."""
        file = self.output / file_name(segment)
        with whole(file, _DO):
            return pq.read_table(pa.BufferReader(self._world.files.read(file)))

    def has(self, segment: int) -> bool:
        """Return whether its answer to a segment is kept."""
        return self._world.files.exists(self.output / file_name(segment))

    def forget(self, upto: int) -> None:
        """Forget its answers up to a segment; the newest stays, for it says how far this version is."""
        upto = min(upto, self.answered - 1)
        for number in self._numbers(self.output) if upto > self._forgotten else ():
            if number <= upto:
                self._world.files.remove(self.output / file_name(number))
        self._forgotten = max(upto, self._forgotten)

    def _numbers(self, folder: Path) -> list[int]:
        return sorted(numbers_among(self._world.files.names(folder), ENDING, 8))
