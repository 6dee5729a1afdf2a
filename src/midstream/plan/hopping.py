"""A hopping query and its plans: the algebra of one hop, how far apart hops are, and the mode of every operator.

An edge between two operators carries a delta (what came and went since the last hop) or the complete relation. The
mode of an operator says which of them it reads and which it gives: DIDO, DICO, CICO, CIDO.
"""

from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from midstream.model.errors import PlanError
from midstream.model.time import format_duration
from midstream.plan.algebra import Rel, Scan, inputs, name_of, operators, scans, schema_of
from midstream.plan.hop_partition import hop_partitioning
from midstream.plan.partition import Partitioning
from midstream.plan.query import RESERVED_OUTPUTS, Source

Emit = Literal["complete", "delta"]
COMPLETE: Emit = "complete"
DELTA: Emit = "delta"
DIDO, DICO, CICO, CIDO = "DIDO", "DICO", "CICO", "CIDO"
MODES = (DIDO, DICO, CICO, CIDO)
WINDOW, TUPLE = "window", "tuple"
"""How an operator that reads deltas works: once at the hop, or on every row as it comes."""
MOST_HOP_US = 2**60


@dataclass(frozen=True)
class HopQuery:
    """A validated hopping query: `root` over the windows `T - w <= time < T`, at every multiple T of `hop_us`.

    Invariant: aliases of scans are distinct; the root's columns are the output, their names distinct, not reserved.
    """

    root: Rel
    hop_us: int
    emit: Emit = COMPLETE
    text: str = ""
    """The SQL it was asked in."""

    def __post_init__(self) -> None:
        if not 0 < self.hop_us < MOST_HOP_US:
            raise PlanError(f"a hop is longer than nothing: HOP BY {format_duration(self.hop_us)}")
        aliases = [s.source.alias for s in scans(self.root)]
        for alias in aliases:
            if aliases.count(alias) > 1:
                raise PlanError(f"alias '{alias}' stands for two streams")
        names = [c.name for c in self.root.columns]
        if not names:
            raise PlanError("a query selects at least one column")
        for name in names:
            if name in RESERVED_OUTPUTS:
                raise PlanError(f"output column '{name}' is reserved; give it another alias")
            if names.count(name) > 1:
                raise PlanError(f"output column '{name}' appears twice; give one of them an alias")

    @property
    def sources(self) -> tuple[Source, ...]:
        """Return what is read, from left to right."""
        return tuple(s.source for s in scans(self.root))

    @property
    def schema(self) -> pa.Schema:
        """Return what leaves the query as an Arrow schema."""
        return schema_of(self.root)

    def columns_of(self, alias: str) -> tuple[str, ...]:
        """Return the columns of an alias that the query reads, in stream order."""
        scan = next(s for s in scans(self.root) if s.source.alias == alias)
        window = scan.source.window
        used = {c.name for c in (*scan.columns, *getattr(window, "partition_by", ()))}
        return tuple(n for n in scan.source.stream.columns.names if n in used)

    def __str__(self) -> str:
        return self.text or f"(a hopping query over {', '.join(s.alias for s in self.sources)})"


@dataclass(frozen=True)
class HopPlan:
    """How a hopping query is computed: an equal tree, a mode and a way to work for each of its operators.

    `modes` and `working` are in the order of `operators(root)`: inputs before those that read them. Invariant: what an
    operator gives is what the one above it reads; the root gives what the query emits. `working` matters to operators
    that read deltas.
    """

    query: HopQuery
    root: Rel
    modes: tuple[str, ...]
    working: tuple[str, ...] = ()
    partitioning: Partitioning = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "partitioning", hop_partitioning(self.query.root))
        nodes = list(operators(self.root))
        if not self.working:
            object.__setattr__(self, "working", (WINDOW,) * len(nodes))
        if [c.type for c in self.root.columns] != [c.type for c in self.query.root.columns]:
            raise PlanError("the plan has other columns than the query")
        if len(self.modes) != len(nodes) or len(self.working) != len(nodes):
            raise PlanError(f"the plan has {len(nodes)} operators, but {len(self.modes)} modes")
        for mode in self.modes:
            if mode not in MODES:
                raise PlanError(f"there is no mode {mode}; the modes are {', '.join(MODES)}")
        for way in self.working:
            if way not in (WINDOW, TUPLE):
                raise PlanError(f"an operator works by {WINDOW} or by {TUPLE}, not by {way}")
        wanted = "DO" if self.query.emit == DELTA else "CO"
        if nodes and self.modes[-1][2:] != wanted:
            raise PlanError(f"the query emits {self.query.emit} results, but {name_of(nodes[-1])} is {self.modes[-1]}")
        _check_edges(self.root, dict(self.of_paths()))

    def of_paths(self) -> list[tuple[tuple[int, ...], str]]:
        """Return the mode of each operator by its path from the root: 0 is the left or only input, 1 the right."""
        return list(zip(_paths(self.root), self.modes, strict=True))

    def __str__(self) -> str:
        """Write the plan in one line: `(except:CICO (join:DICO a b) c)`."""
        return _text(self.root, dict(self.of_paths()), ())


def _paths(rel: Rel, path: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """Return the paths of the operators, in the order of `operators`."""
    if isinstance(rel, Scan):
        return []
    below = [p for i, child in enumerate(inputs(rel)) for p in _paths(child, (*path, i))]
    return [*below, path]


def _check_edges(rel: Rel, modes: dict[tuple[int, ...], str], path: tuple[int, ...] = ()) -> None:
    for i, child in enumerate(inputs(rel)):
        if isinstance(child, Scan):
            continue
        above, below = modes[path], modes[(*path, i)]
        if above[0] != below[2]:
            raise PlanError(f"{name_of(child)} is {below}, but {name_of(rel)} above it is {above}")
        _check_edges(child, modes, (*path, i))


def _text(rel: Rel, modes: dict[tuple[int, ...], str], path: tuple[int, ...]) -> str:
    if isinstance(rel, Scan):
        return str(rel)
    below = [_text(child, modes, (*path, i)) for i, child in enumerate(inputs(rel))]
    return f"({' '.join([f'{name_of(rel)}:{modes[path]}', *below])})"


def as_written(query: HopQuery) -> HopPlan:
    """Return the plan of the query as it was written, with deltas all the way: the default of other systems."""
    modes = [DIDO for _ in operators(query.root)]
    if query.emit == COMPLETE and modes:
        modes[-1] = DICO
    return HopPlan(query, query.root, tuple(modes))
