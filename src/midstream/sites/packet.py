"""Packets: what travels between nodes, in a form that any transport can carry.

    plain values (JSON) + at most one table of rows (Arrow)  ──▶ bytes ──▶ the same packet

A packet is addressed to a node. Where that node lives, and what is done so that each comes once and in order, is for
whoever carries it.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from midstream.model.errors import StateError
from midstream.operators.expression.arrays import is_text

ROWS, PARTIALS = "rows", "partials"
WINDOW_REQUEST, WINDOW_COPY = "window request", "window copy"
LOCAL_READY, GLOBAL_READY = "local-ready", "global-ready"
MODIFICATION, TURN = "modification", "turn"
KINDS = (
    ROWS, PARTIALS, WINDOW_REQUEST, WINDOW_COPY, LOCAL_READY, GLOBAL_READY, MODIFICATION, TURN,
)  # fmt: skip
ABOUT_PLANS = (MODIFICATION, TURN)
SYNCHRONIZATION = (LOCAL_READY, GLOBAL_READY)
"""The kinds that the paper counts as synchronization messages."""

HEAD_BYTES = 24
"""What a packet takes beside its rows and plain values: sender, receiver, kind, lengths."""
_LENGTH_BYTES = 4


@dataclass(frozen=True)
class Packet:
    """Something that a node says to another one. Invariant: `plain` is what JSON gives back as it was."""

    kind: str
    sender: str
    to: str
    plain: dict[str, Any] = field(default_factory=dict)
    table: pa.RecordBatch | None = None

    @property
    def nbytes(self) -> int:
        """Return how many bytes it takes on the wire: the values of its rows, and what is said beside them."""
        size = HEAD_BYTES + len(json.dumps(self.plain, separators=(",", ":")))
        return size if self.table is None else size + sum(map(bytes_of, self.table.columns))

    def encode(self) -> bytes:
        """Return the packet as bytes."""
        head = json.dumps([self.kind, self.sender, self.to, self.plain], separators=(",", ":")).encode()
        return b"".join((len(head).to_bytes(_LENGTH_BYTES, "little"), head, encode_table(self.table)))

    @staticmethod
    def decode(data: bytes) -> "Packet":
        """Return the packet of some bytes, or refuse them."""
        try:
            stop = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
            kind, sender, to, plain = json.loads(data[_LENGTH_BYTES:stop])
            return Packet(kind, sender, to, plain, decode_table(data[stop:]))
        except (ValueError, TypeError, pa.ArrowException) as error:
            raise StateError(f"this is no packet between nodes: {error!r}") from error


def encode_table(table: pa.RecordBatch | None) -> bytes:
    """Return rows as bytes; none at all as no bytes."""
    if table is None:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_batch(table)
    return bytes(sink.getvalue())


def decode_table(data: bytes) -> pa.RecordBatch | None:
    """Return the rows of some bytes."""
    if not data:
        return None
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def bytes_of(array: pa.Array) -> int:
    """Return how many bytes the values of an array take: those of texts, and four for each length.

    >>> bytes_of(pa.array([1, 2, None])), bytes_of(pa.array(["ab", ""])), bytes_of(pa.array([True] * 9))
    (24, 10, 2)
    """
    if pa.types.is_null(array.type):
        return 0
    if is_text(array.type):
        return 4 * len(array) + int(pc.sum(pc.binary_length(array)).as_py() or 0)
    return int(-(-len(array) * array.type.bit_width // 8))
