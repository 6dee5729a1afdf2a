"""Durable rows: what one version of a query keeps in the store of its bucket.

Window rows and rows that wait are all a restart needs; output that is held back and rows in windows over results are
kept as well, since they cannot be computed again from those.
"""

import uuid
from collections.abc import Sequence
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc

from midstream.engine.bucket.chunks import TOGETHER, Chunk, HeldChunk, WaitingChunk, to_merge
from midstream.engine.bucket.state import VersionState
from midstream.engine.bucket.store import HELD, OWN, STAGE, WAITING, WINDOW, Key, Store
from midstream.engine.results.output import Leaving, of_table, to_table
from midstream.engine.rows.rows import TIME, Rows, in_order
from midstream.engine.run.contract import StageChunk, StageRows, StageState
from midstream.model.time import FOREVER


class DurableRows:
    """Reads and writes what one version keeps; `state` knows which tables there are."""

    def __init__(self, store: Store, state: VersionState, version: int) -> None:
        self._store = store
        self._state = state
        self._version = version

    def _key(self, kind: str, place: int, chunk: int) -> Key:
        return Key(kind, self._version, place, chunk)

    def chunks(self, alias: int) -> list[Chunk]:
        """Return what is known of the window rows of an alias."""
        return self._state.chunks.get(alias, [])

    @property
    def nbytes(self) -> int:
        """Return the memory held: nothing, rows lie in the store."""
        return 0

    def window_rows(self, alias: int, names: Sequence[str]) -> list[Rows]:
        """Read back the live window rows of an alias, oldest first."""
        chunks = self._state.chunks.get(alias, [])
        return [Rows.of_table(self._store.read(self._key(WINDOW, alias, c.number)), names) for c in chunks]

    @property
    def released_us(self) -> int:
        """Return up to where rows have been released."""
        return self._state.released_us

    def waiting_chunks(self, alias: int) -> list[WaitingChunk]:
        """Return the chunks of the rows of an alias that wait."""
        return list(self._state.waiting.get(alias, []))

    def waiting_rows(self, alias: int, chunk: WaitingChunk, names: Sequence[str]) -> Rows:
        """Read back the rows of a chunk that wait."""
        rows = Rows.of_table(self._store.read(self._key(WAITING, alias, chunk.number)), names)
        return in_order([rows]).since(self._state.released_us)

    def add(self, alias: int, rows: Rows) -> None:
        """Keep rows that have entered the window of an alias."""
        if len(rows):
            table = rows.to_table()
            chunks = self._state.chunks.setdefault(alias, [])
            chunks.append(Chunk(self._state.batches, len(rows), int(rows.times[-1]), table.nbytes))
            while to_merge(chunks):
                table = self._with_those_before(WINDOW, alias, chunks, table)
                count = sum(c.rows for c in chunks[-TOGETHER:])
                chunks[-TOGETHER:] = [chunks[-1]._replace(rows=count, nbytes=table.nbytes)]
            self._store.write(self._key(WINDOW, alias, self._state.batches), table)

    def _with_those_before(
        self,
        kind: str,
        place: int,
        chunks: Sequence[Chunk | WaitingChunk | StageChunk | HeldChunk],
        table: pa.Table,
    ) -> pa.Table:
        """Return the tables of the chunks before the last one, and its own, as one; those before are removed."""
        keys = [self._key(kind, place, chunk.number) for chunk in chunks[-TOGETHER:-1]]
        # Rows written by an older release may lack columns that came later.
        whole = pa.concat_tables([*map(self._store.read, keys), table], promote_options="permissive")
        for key in keys:
            self._store.remove(key)
        return whole if kind == HELD else whole.combine_chunks()

    def replace(self, alias: int, rows: Rows) -> None:
        """Keep these rows, and no others, as the window of an alias."""
        for chunk in self._state.chunks.pop(alias, []):
            self._store.remove(self._key(WINDOW, alias, chunk.number))
        self.add(alias, rows)

    def wait(self, alias: int, rows: Rows | None) -> None:
        """Keep further rows of an alias that wait; remove chunks of which no row waits any more."""
        chunks, released_us = list[WaitingChunk](), self._state.released_us
        for chunk in self._state.waiting.pop(alias, []):
            if chunk.latest_us < released_us:
                self._store.remove(self._key(WAITING, alias, chunk.number))
            else:
                chunks.append(chunk)
        if rows is not None and len(rows):
            table = rows.to_table()
            times = int(rows.times[-1]), int(rows.times[0])
            chunks.append(WaitingChunk(self._state.batches, len(rows), times[0], table.nbytes, times[1]))
            while to_merge(chunks):
                table = self._with_those_before(WAITING, alias, chunks, table)
                table = table.filter(pc.greater_equal(table.column(TIME), released_us)).combine_chunks()
                merged = chunks[-TOGETHER:]
                times = max(c.latest_us for c in merged), max(released_us, min(c.first_us for c in merged))
                chunks[-TOGETHER:] = [
                    merged[-1]._replace(rows=table.num_rows, latest_us=times[0], nbytes=table.nbytes, first_us=times[1])
                ]
            self._store.write(self._key(WAITING, alias, self._state.batches), table)
        if chunks:
            self._state.waiting[alias] = chunks

    def wait_anew(self, alias: int, rows: Rows | None) -> None:
        """Keep these rows of an alias that wait, and no others."""
        for chunk in self._state.waiting.pop(alias, []):
            self._store.remove(self._key(WAITING, alias, chunk.number))
        self.wait(alias, rows)

    def expire(self, alias: int, before_us: int | None, keep_rows: int | None, until_us: int = FOREVER) -> None:
        """Drop chunks whose rows are all before a time, or that `keep_rows` later rows have followed.

        Of those that have followed only chunks before `until_us` count.
        """
        chunks = self._state.chunks.get(alias, [])
        later = sum(c.rows for c in chunks if c.latest_us < until_us)
        while chunks:
            later -= chunks[0].rows if chunks[0].latest_us < until_us else 0
            expired = before_us is not None and chunks[0].latest_us < before_us
            pushed_out = keep_rows is not None and later >= keep_rows
            if not (expired or pushed_out):
                return
            self._store.remove(self._key(WINDOW, alias, chunks.pop(0).number))

    def own_tables(self) -> "OwnTables":
        """Return what the run keeps itself, each table to be read when it is asked for."""
        keys = [self._key(OWN, 0, number) for number in range(self._state.own)]
        return OwnTables(self._store, keys)

    def keep_own(self, tables: Sequence[pa.Table]) -> None:
        """Keep these tables of the run, and no others."""
        for number, table in enumerate(tables):
            self._store.write(self._key(OWN, 0, number), table)
        for number in range(len(tables), self._state.own):
            self._store.remove(self._key(OWN, 0, number))
        self._state.own = len(tables)

    def hold_back(self, held: Sequence[Leaving]) -> None:
        """Keep output that must leave later."""
        if held:
            table = pa.concat_tables([to_table(h.results) for h in held])
            chunks = self._state.held
            chunks.append(HeldChunk(self._state.batches, table.nbytes))
            while to_merge(chunks):
                table = self._with_those_before(HELD, 0, chunks, table)
                chunks[-TOGETHER:] = [chunks[-1]._replace(nbytes=table.nbytes)]
            self._store.write(self._key(HELD, 0, self._state.batches), table)

    def take_held(self) -> list[Leaving]:
        """Return the output held back, and forget it."""
        keys = [self._key(HELD, 0, chunk.number) for chunk in self._state.held]
        batches = [batch for key in keys for batch in self._store.read(key).to_batches()]
        found = [Leaving(self._version, of_table(pa.Table.from_batches([batch]))) for batch in batches]
        for key in keys:
            self._store.remove(key)
        self._state.held = []
        return found

    def keep_stage(self, stage: int, given: StageRows) -> None:
        """Keep rows that a stage has taken in; drop those it no longer needs."""
        chunks = list(self._state.stages.get(stage, StageState()).chunks)
        if given.instead:
            for chunk in chunks:
                self._store.remove(self._key(STAGE, stage, chunk.number))
            chunks = []
        if given.rows is not None and given.rows.num_rows:
            table = given.rows
            chunks.append(StageChunk(self._state.batches, given.state.end, table.nbytes))
            while to_merge(chunks):
                table = self._with_those_before(STAGE, stage, chunks, table)
                chunks[-TOGETHER:] = [chunks[-1]._replace(nbytes=table.nbytes)]
            self._store.write(self._key(STAGE, stage, self._state.batches), table)
        while chunks and chunks[0].end <= given.state.first:
            self._store.remove(self._key(STAGE, stage, chunks.pop(0).number))
        self._state.stages[stage] = StageState(chunks, given.state.counters, given.state.first, given.state.end)

    def stage_rows(self) -> list[tuple[int, pa.Table, dict[str, int]]]:
        """Read back the rows of all stages, oldest first, with their counters."""
        out = []
        for stage, state in self._state.stages.items():
            tables = [self._store.read(self._key(STAGE, stage, chunk.number)) for chunk in state.chunks]
            # Rows written by an older Midstream lack columns that came later.
            rows = pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
            out.append((stage, rows, state.counters))
        return out

    def commit(self) -> None:
        """Name the state as it is now."""
        self._state.batches += 1
        self._state.token = f"{self._state.batches}-{uuid.uuid4().hex}"

    def forget(self) -> None:
        """Remove everything the version has kept: it is over."""
        state = self._state
        keys = [self._key(WINDOW, alias, c.number) for alias, chunks in state.chunks.items() for c in chunks]
        keys += [self._key(WAITING, alias, c.number) for alias, chunks in state.waiting.items() for c in chunks]
        keys += [self._key(STAGE, k, c.number) for k, stage in state.stages.items() for c in stage.chunks]
        keys += [self._key(HELD, 0, c.number) for c in state.held]
        keys += [self._key(OWN, 0, number) for number in range(state.own)]
        for key in keys:
            self._store.remove(key)


class OwnTables(Sequence[pa.RecordBatch]):
    """Tables that a run keeps itself, read from the store one at a time."""

    def __init__(self, store: Store, keys: Sequence[Key]) -> None:
        self._store = store
        self._keys = keys

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._keys)

    @overload
    def __getitem__(self, place: int) -> pa.RecordBatch: ...

    @overload
    def __getitem__(self, place: slice) -> "OwnTables": ...

    def __getitem__(self, place: int | slice) -> "pa.RecordBatch | OwnTables":
        """Return a table, or some of them unread."""
        if isinstance(place, slice):
            return OwnTables(self._store, self._keys[place])
        table = self._store.read(self._keys[place]).combine_chunks()
        return table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], table.schema)
