"""Lines: what buckets emit as rows of a DataFrame, and back: a kind, how many rows, a blob."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from midstream.change.merger import versioned
from midstream.engine.results.output import ORDER, BucketOutput, Leaving, lists, of_table, to_table
from midstream.live.blobs import from_blob, to_blob
from midstream.live.mailbox import of_batches, to_batches

RESULT, REPORT, LATE, MAIL, FILE = 0, 1, 2, 3, 4
"""Kinds of lines; FILE: a worker has written results into a file, which a sink that asked for it takes."""
SAID = b"midstream.leaving"
"""What a blob of results says of them: version, hop, held back until when."""

PartWriter = Callable[[Iterator[pa.RecordBatch], int], Iterator[pa.RecordBatch]]
"""Takes the lines of a partition, given its number, and hands on those that the driver wants."""


class Lines(Protocol):
    """The lines of one micro-batch, where they are: with the workers."""

    def collect(self) -> list[Any]:
        """Return all lines; each has bucket, kind and blob."""

    def written(self, write: PartWriter) -> list[Any]:
        """Let `write` take the lines of each partition where they are; return those it hands on."""


def to_lines(output: BucketOutput) -> Iterator[tuple[int, int, bytes]]:
    """Yield what a bucket emits in a micro-batch as lines."""
    for item in output.leaving:
        yield RESULT, len(item.results), to_blob(_table(item))
    for table in output.late:
        yield LATE, table.num_rows, to_blob(table)
    for batch in to_batches(output.mail):
        yield MAIL, batch.num_rows, to_blob(batch)
    yield REPORT, 0, json.dumps(output.report).encode()


def _table(item: Leaving) -> pa.Table:
    """Return results with their version and their place among those of other buckets."""
    rows = versioned(item.results.rows, item.version)
    table = to_table(replace(item.results, rows=rows))
    place = item.place()
    if place is not None:
        table = table.set_column(table.column_names.index(ORDER), ORDER, lists(place))
    said = {"version": item.version, "held_until_us": item.held_until_us, "hop_us": item.hop_us}
    return table.replace_schema_metadata({SAID: json.dumps(said).encode()})


def reports_of(lines: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the reports among what buckets emitted in a micro-batch."""
    return [json.loads(bytes(line.blob)) for line in lines if line.kind == REPORT]


def of_lines(lines: Iterable[Any]) -> list[BucketOutput]:
    """Return what all buckets emitted in a micro-batch; lines have bucket, kind and blob."""
    outputs: dict[int, BucketOutput] = {}
    mail: dict[int, list[pa.RecordBatch]] = {}
    for line in lines:
        output = outputs.setdefault(line.bucket, BucketOutput(line.bucket))
        blob = bytes(line.blob)
        if line.kind == REPORT:
            output.report = json.loads(blob)
        elif line.kind == LATE:
            output.late.append(from_blob(blob))
        elif line.kind == MAIL:
            mail.setdefault(line.bucket, []).extend(from_blob(blob).to_batches())
        else:
            output.leaving.append(_leaving(from_blob(blob)))
    for bucket, batches in mail.items():
        outputs[bucket].mail = list(of_batches(batches))
    return [outputs[bucket] for bucket in sorted(outputs)]


def _leaving(table: pa.Table) -> Leaving:
    said = json.loads(table.schema.metadata[SAID])
    results = of_table(table.replace_schema_metadata().drop_columns(["_version"]))
    if results.order is not None:
        results = replace(results, order=np.ascontiguousarray(results.order[:, 2:]))
    return Leaving(said["version"], results, said["held_until_us"], said["hop_us"])
