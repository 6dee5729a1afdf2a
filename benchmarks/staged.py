"""Generated streams staged for Spark: one file per stream and micro-batch."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.workload import Workload


def write_batches(workload: Workload, folder: Path, batches: int, batch_s: int, seed: int) -> None:
    """Write one file per stream and micro-batch."""
    writers: dict[str, pq.ParquetWriter] = {}
    for name in workload.names:
        (folder / name).mkdir(parents=True)
    for second, rows in enumerate(workload.batches(batches * batch_s, seed)):
        number = second // batch_s
        for name, mine in rows.items():
            file = folder / name / f"{number:05d}.parquet"
            table = pa.table({"ts": mine.times, **mine.columns})
            if second % batch_s == 0:
                writers[name] = pq.ParquetWriter(file, table.schema)
            writers[name].write_table(table)
            if second % batch_s == batch_s - 1:
                writers[name].close()
                age = 1_000_000_000 + number
                os.utime(file, (age, age))
