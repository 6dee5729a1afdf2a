"""Mailbox: the messages of buckets to each other, a file per micro-batch in the checkpoint.

    micro-batch N: buckets ──▶ lines ──▶ driver ──▶ mail/N.arrow, whole ──▶ Spark's commit
    micro-batch N + 1: bucket ──▶ reads its part of mail/N.arrow, whoever runs it and however often

Micro-batch N + 1 is planned after N has been committed, and so after its file was written: what it reads depends on its
number alone. One that is run again writes the same file again, in the place of the first. Every micro-batch of a query
that sends mail has a file, be it empty: one that is missing is an error, never taken for no mail.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from midstream.engine.rows.mail import Message, mail_for
from midstream.engine.world import World
from midstream.local.disk import THIS_MACHINE
from midstream.model.failpoint import reach
from midstream.model.format import check_format, stream_table, whole
from midstream.model.names import numbers_among

FORMAT = 1
"""The form in which mail is written."""
SAID = b"midstream.mail"
"""What a file says of itself: format, micro-batch, how many messages."""
PIECES = pa.schema(
    [("to", pa.int32()), ("sender", pa.int32()), ("kind", pa.string()), ("last", pa.bool_()), ("body", pa.binary())]
)
"""Messages as rows: a long one is several rows, one after the other, the last of which says so."""
PIECE_BYTES = 1 << 20
TABLE_BYTES = 4 << 20
"""A table of pieces holds no more than that, and one piece."""
KEPT = 3
"""Files that are kept: the last micro-batch may be run again and reads the one before it; one more does no harm."""
ENDING = ".arrow"


def to_batches(mail: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    """Yield messages as tables of pieces, in order.

    >>> parts = list(to_batches([Message(1, "rows", bytes(5 << 20)), Message(0, "mark", b"7")]))
    >>> [part.num_rows for part in parts], [len(m.body) for m in of_batches(parts)]
    ([4, 2], [5242880, 1])
    """
    rows, held = list[tuple[int, int, str, bool, bytes]](), 0
    for message in mail:
        size = len(message.body)
        for start in range(0, max(size, 1), PIECE_BYTES):
            piece = message.body[start : start + PIECE_BYTES]
            rows.append((message.to, message.sender, message.kind, start + PIECE_BYTES >= size, piece))
            held += len(piece)
            if held >= TABLE_BYTES:
                yield _table(rows)
                rows, held = [], 0
    if rows:
        yield _table(rows)


def _table(rows: Sequence[tuple[int, int, str, bool, bytes]]) -> pa.RecordBatch:
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), PIECES.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=PIECES)


def of_batches(batches: Iterable[pa.RecordBatch], to: int | None = None) -> Iterator[Message]:
    """Yield the messages of tables of pieces, all or those to one bucket, in order."""
    parts: list[bytes] = []
    for batch in batches:
        mine = batch if to is None else batch.filter(pa.compute.equal(batch.column("to"), to))
        for row in mine.to_pylist():
            parts.append(row["body"])
            if row["last"]:
                yield Message(row["to"], row["kind"], b"".join(parts), row["sender"])
                parts = []


@dataclass(frozen=True)
class Mailbox:
    """The mail of one query, for those who read it: in workers, in whatever process."""

    folder: Path
    world: World = THIS_MACHINE

    def read(self, batch: int, to: int) -> list[Message]:
        """Return what a bucket gets in a micro-batch: what was sent to it in the one before."""
        return mail_for(to, of_batches(self._table(batch - 1).to_batches(), to)) if batch > 0 else []

    def waits(self, batch: int) -> bool:
        """Return whether messages were sent in a micro-batch."""
        return bool(self._table(batch).num_rows)

    def _table(self, batch: int) -> pa.Table:
        file = self.file(batch)
        with whole(file):
            data = self.world.files.read(file)
        table = stream_table(file, data)
        with whole(file):
            said = json.loads((table.schema.metadata or {})[SAID])
        check_format(f"{file}", said.get("format"), FORMAT)
        with whole(file):
            if said["batch"] != batch or not table.schema.equals(PIECES):
                raise ValueError("mail of another micro-batch")
        return table

    def file(self, batch: int) -> Path:
        """Return where the messages of a micro-batch lie."""
        return self.folder / f"{batch:08d}{ENDING}"


class MailWriter:
    """The driver's side of a mailbox: writes the mail of each micro-batch, and removes what nobody can read again."""

    def __init__(self, box: Mailbox) -> None:
        self.box = box
        self._numbers: list[int] | None = None
        """The files that are there, in order; None: nobody has looked."""
        self._waits: tuple[int, bool] | None = None
        """The last micro-batch, and whether it has sent anything; None: nobody has looked."""

    def write(self, batch: int, mail: Sequence[Message]) -> None:
        """Let the next micro-batch read what buckets have sent in this one."""
        files, box = self.box.world.files, self.box
        if self._numbers is None or self._numbers[-1:] != [batch - 1]:
            files.make_folder(box.folder)
            self._numbers = self._found()
        reach("mail sent")
        box.world.put(box.file(batch), _file(batch, mail), point=lambda: reach("mail pending"))
        reach("mail written")
        self._waits = batch, bool(mail)
        self._numbers = sorted({*self._numbers, batch})
        for number in self._numbers[:-KEPT]:
            files.remove(box.file(number))
            reach("mail removed")
        del self._numbers[:-KEPT]

    def waiting(self) -> int | None:
        """Return the last micro-batch if it has sent what the next one is to read, or None."""
        if self._waits is None:
            last = max(self._found(), default=None)
            self._waits = (-1, False) if last is None else (last, self.box.waits(last))
        number, waits = self._waits
        return number if waits else None

    def _found(self) -> list[int]:
        names = self.box.world.files.names(self.box.folder)
        return sorted(numbers_among(names, ENDING, 8))


def _file(batch: int, mail: Sequence[Message]) -> pa.Buffer:
    said = json.dumps({"format": FORMAT, "batch": batch, "messages": len(mail)}).encode()
    held = pa.BufferOutputStream()
    with pa.ipc.new_stream(held, PIECES.with_metadata({SAID: said})) as writer:
        for part in to_batches(mail):
            writer.write_batch(part)
    return held.getvalue()
