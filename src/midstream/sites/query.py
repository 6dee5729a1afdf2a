"""The query of a distributed join as its nodes see it: what each stream brings, carries and is compared by."""

from collections.abc import Iterable
from functools import cached_property

import pyarrow as pa

from midstream.kernels.entries import KEY, ROWS
from midstream.model.types import is_exact_code
from midstream.operators.expression.evaluate import truth
from midstream.operators.sliding.build_eddy import stem_specs
from midstream.plan.expr import aliases, cast_to, columns
from midstream.plan.plan import Plan
from midstream.plan.source import Source


class JoinedQuery:
    """What nodes derive from a query, once. Each of them has the whole query: it is small, and never changes."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.aliases = plan.query.aliases
        """In FROM order."""
        self.stems, self.codes = stem_specs(plan)
        self.filters = plan.predicates.filters
        self.outputs = [(o.name, o.expr) for o in plan.query.parts.first.outputs]
        self.types: dict[str, dict[str, pa.DataType]] = {}
        for s in plan.query.sources:
            held = {n: s.stream.type_of(n) for n in plan.query.columns_of(s.alias)}
            self.types[s.alias] = {n: t for n, t in held.items() if t is not None}
        self._places = {s.alias: (s.position, k) for k, s in enumerate(plan.query.sources)}
        predicates = plan.predicates
        self._selected = {c for e in plan.query.parts.first.values for c in columns(e)}
        read = [(tuple(columns(r)), aliases(r)) for r in predicates.residuals]
        for cls in predicates.classes:
            if not is_exact_code(cls.type):
                read += [(tuple(columns(cast_to(m, cls.type))), cls.aliases) for m in cls.members]
        self._read = read
        """Columns that are read as long as certain aliases are not all joined."""

    def source(self, alias: str) -> Source:
        """Return the source of an alias."""
        return self.plan.query.source(alias)

    def place(self, alias: str) -> tuple[int, int]:
        """Return where rows of an alias stand among others of the same time: stream as declared, then FROM order."""
        return self._places[alias]

    def rank(self, alias: str) -> int:
        """Return the place of an alias in FROM."""
        return self._places[alias][1]

    @cached_property
    def never(self) -> bool:
        """Tell whether a constant condition is not true, so that there are no results."""
        constants = self.plan.predicates.constants
        return not all(truth(c, 1, lambda column: pa.nulls(1)).all() for c in constants)

    def carried(self, alias: str, done: Iterable[str] = ()) -> list[str]:
        """Return the columns of an alias that somebody reads once the streams of `done` are joined."""
        joined = set(done)
        open_ = [c for read, needs in self._read if not needs <= joined for c in read]
        wanted = {c.name for c in (*self._selected, *open_) if c.alias == alias}
        return [name for name in self.types[alias] if name in wanted]

    def compared(self, done: Iterable[str]) -> list[int]:
        """Return the codes, the key being number 0, that streams which are not done compare with."""
        left = [a for a in self.aliases if a not in set(done)]
        bits = sum(1 << self.rank(a) for a in done)
        found = {c.carried for a in left for c in self.stems[a].conditions if c.others & bits}
        return sorted(0 if c == KEY else 1 + c - ROWS for c in found)
