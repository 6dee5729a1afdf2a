"""Durable rows: what one version of a query keeps in the store of its bucket.

Window rows and rows that wait are all a restart needs; output that is held back and rows in windows over results are
kept as well, since they cannot be computed again from those.
"""

import uuid
from collections.abc import Sequence

import pyarrow as pa

from midstream.engine.bucket.state import Chunk, VersionState
from midstream.engine.bucket.store import HELD, STAGE, WAITING, WINDOW, Key, Store
from midstream.engine.results.output import Leaving, of_table, to_table
from midstream.engine.rows.rows import Rows
from midstream.engine.run.contract import StageRows, StageState
from midstream.model.time import FOREVER


class DurableRows:
    """Reads and writes what one version keeps; `state` knows which tables there are."""

    def __init__(self, store: Store, state: VersionState, version: int) -> None:
        self._store = store
        self._state = state
        self._version = version

    def _key(self, kind: str, place: int, chunk: int) -> Key:
        return Key(kind, self._version, place, chunk)

    def window_rows(self, alias: int, names: Sequence[str]) -> list[Rows]:
        """Read back the live window rows of an alias, oldest first."""
        chunks = self._state.chunks.get(alias, [])
        return [Rows.of_table(self._store.read(self._key(WINDOW, alias, c.number)), names) for c in chunks]

    def waiting_rows(self, alias: int, names: Sequence[str]) -> list[Rows]:
        """Read back the rows of an alias that wait."""
        if not self._state.waiting.get(alias):
            return []
        return [Rows.of_table(self._store.read(self._key(WAITING, alias, 0)), names)]

    def add(self, alias: int, rows: Rows) -> None:
        """Keep rows that have entered the window of an alias."""
        if len(rows):
            number = self._state.batches
            self._store.write(self._key(WINDOW, alias, number), rows.to_table())
            self._state.chunks.setdefault(alias, []).append(Chunk(number, len(rows), int(rows.times[-1])))

    def replace(self, alias: int, rows: Rows) -> None:
        """Keep these rows, and no others, as the window of an alias."""
        for chunk in self._state.chunks.pop(alias, []):
            self._store.remove(self._key(WINDOW, alias, chunk.number))
        self.add(alias, rows)

    def wait(self, alias: int, rows: Rows | None) -> None:
        """Keep the rows of an alias that wait, and no others."""
        if rows is not None:
            self._store.write(self._key(WAITING, alias, 0), rows.to_table())
        elif self._state.waiting.get(alias):
            self._store.remove(self._key(WAITING, alias, 0))
        self._state.waiting[alias] = 0 if rows is None else len(rows)

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

    def hold_back(self, held: Sequence[Leaving]) -> None:
        """Keep output that must leave later."""
        if held:
            number = self._state.batches
            tables = [to_table(h.results) for h in held]
            self._store.write(self._key(HELD, 0, number), pa.concat_tables(tables))
            self._state.held.append(number)

    def take_held(self) -> list[Leaving]:
        """Return the output held back, and forget it."""
        keys = [self._key(HELD, 0, number) for number in self._state.held]
        batches = [batch for key in keys for batch in self._store.read(key).to_batches()]
        found = [Leaving(self._version, of_table(pa.Table.from_batches([batch]))) for batch in batches]
        for key in keys:
            self._store.remove(key)
        self._state.held = []
        return found

    def keep_stage(self, stage: int, given: StageRows) -> None:
        """Keep rows that a stage has taken in; drop those it no longer needs."""
        chunks = self._state.stages.get(stage, StageState()).chunks
        if given.instead:
            for number, _ in chunks:
                self._store.remove(self._key(STAGE, stage, number))
            chunks = []
        if given.rows is not None and given.rows.num_rows:
            number = self._state.batches
            self._store.write(self._key(STAGE, stage, number), given.rows)
            chunks = [*chunks, (number, given.state.end)]
        while chunks and chunks[0][1] <= given.state.first:
            self._store.remove(self._key(STAGE, stage, chunks[0][0]))
            chunks = chunks[1:]
        self._state.stages[stage] = StageState(chunks, given.state.counters, given.state.first, given.state.end)

    def stage_rows(self) -> list[tuple[int, pa.Table, dict[str, int]]]:
        """Read back the rows of all stages, oldest first, with their counters."""
        out = []
        for stage, state in self._state.stages.items():
            tables = [self._store.read(self._key(STAGE, stage, number)) for number, _ in state.chunks]
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
        keys += [self._key(WAITING, alias, 0) for alias, count in state.waiting.items() if count]
        keys += [self._key(STAGE, k, number) for k, stage in state.stages.items() for number, _ in stage.chunks]
        keys += [self._key(HELD, 0, number) for number in state.held]
        for key in keys:
            self._store.remove(key)
