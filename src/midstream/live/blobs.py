"""Blobs: tables as Arrow IPC bytes, the form in which they cross Spark and lie in its state store."""

import pyarrow as pa


def to_blob(table: pa.Table | pa.RecordBatch) -> bytes:
    """Write a table as Arrow IPC."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return bytes(sink.getvalue().to_pybytes())


def from_blob(blob: bytes) -> pa.Table:
    """Read a table back."""
    return pa.ipc.open_stream(blob).read_all()
