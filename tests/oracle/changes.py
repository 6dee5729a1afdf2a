"""Queries as the paper on query change sees them: functions from the recorded input to results, by brute force.

    rows ─▶ Query.results ─▶ results with depends and trigger ─▶ change_run: what is emitted ─▶ change_counts

Everything is computed from all rows at once and by brute force. Nothing here knows how the engine does it.

A position is an event time: it lies before the rows of that time. A row is old if its time is less.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

Value = int | float | None
Trigger = tuple[int, int, int]
"""(time, stream, offset) of the row that made a result leave; (T, -1, -1) for the end of a time instance."""

METHODS = ["immediate", "delayed-drain", "drain/query", "drain/stream", "graceful-immediate", "graceful-drain"]
BEGINNING, NEVER = -(2**62), 2**62


# Rows and results ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Row:
    """One row of a stream; two rows are the same only if they are one object."""

    time: int
    stream: int
    """The number of its stream in declaration order."""
    offset: int
    values: dict[str, Value]

    @property
    def key(self) -> Trigger:
        return self.time, self.stream, self.offset


@dataclass(frozen=True, eq=False)
class Result:
    """One result, or one row seen as such."""

    values: dict[str, Value]
    depends: frozenset[Row]
    """The rows that count in it."""
    trigger: Trigger
    time: int
    """The time of the latest row it depends on: `_time`."""

    def has_row_before(self, position: int) -> bool:
        return any(row.time < position for row in self.depends)

    @property
    def identity(self) -> tuple[object, ...]:
        """Return what tells the results of one version apart."""
        return self.trigger, self.depends


def of_row(row: Row) -> Result:
    return Result(row.values, frozenset([row]), row.key, row.time)


@dataclass(frozen=True)
class Condition:
    """`column op value`, or `column IS NOT NULL`; null is not true."""

    column: str
    op: str
    value: int = 0

    def __str__(self) -> str:
        return f"{self.column} IS NOT NULL" if self.op == "IS NOT NULL" else f"{self.column} {self.op} {self.value}"

    def holds(self, values: dict[str, Value]) -> bool:
        found = values[self.column]
        if found is None:
            return False
        match self.op:
            case "<":
                return found < self.value
            case ">":
                return found > self.value
            case "=":
                return found == self.value
            case "<>":
                return found != self.value
            case _:
                return True


def where_clause(conditions: Iterable[object]) -> str:
    text = " AND ".join(map(str, conditions))
    return f" WHERE {text}" if text else ""


# Windows of instances ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Instance:
    """The members of one window instance, and what closed it: None if the input ended first."""

    members: Sequence[Result]
    closes: Trigger | None

    def has_row_before(self, position: int) -> bool:
        """Tell whether a member depends on such a row, be it that WHERE then leaves that member out."""
        return any(m.has_row_before(position) for m in self.members)


class InstanceWindow(Protocol):
    """A window that is a sequence of instances; `latest` is the time of the latest row of the run."""

    def instances(self, items: Sequence[Result], latest: int) -> list[Instance]: ...


@dataclass(frozen=True)
class RowsSlide:
    """`[ROWS n SLIDE m]`, of the stream or of each key: items j*m to j*m + n - 1."""

    count: int
    slide: int
    by: str | None = None

    def __str__(self) -> str:
        return f"[ROWS {self.count} SLIDE {self.slide}{f' PARTITION BY {self.by}' if self.by else ''}]"

    def instances(self, items: Sequence[Result], latest: int) -> list[Instance]:
        parts: dict[Value, list[Result]] = {}
        for item in items:
            parts.setdefault(item.values[self.by] if self.by else None, []).append(item)
        found = []
        for part in parts.values():
            for first in range(0, len(part), self.slide):
                members = part[first : first + self.count]
                found.append(Instance(members, members[-1].trigger if len(members) == self.count else None))
        return found


@dataclass(frozen=True)
class RangeSlide:
    """`[RANGE r SLIDE s]`: for every multiple T of s the items with T - r <= time < T, if there is one."""

    width_us: int
    slide_us: int

    def __str__(self) -> str:
        return f"[RANGE {self.width_us} MICROSECONDS SLIDE {self.slide_us} MICROSECONDS]"

    def instances(self, items: Sequence[Result], latest: int) -> list[Instance]:
        members: dict[int, list[Result]] = {}
        for item in items:
            end = (item.time // self.slide_us + 1) * self.slide_us
            while end - self.width_us <= item.time:
                members.setdefault(end, []).append(item)
                end += self.slide_us
        return [Instance(members[end], (end, -1, -1) if end <= latest else None) for end in sorted(members)]


@dataclass(frozen=True)
class PredicateSlide:
    """`[START WHEN p END WHEN q]`: from an item with p, when no window is open, to the first item with q."""

    start: Condition
    end: Condition

    def __str__(self) -> str:
        return f"[START WHEN {self.start} END WHEN {self.end}]"

    def instances(self, items: Sequence[Result], latest: int) -> list[Instance]:
        found, members = [], list[Result]()
        for item in items:
            if members or self.start.holds(item.values):
                members.append(item)
                if self.end.holds(item.values):
                    found.append(Instance(members, item.trigger))
                    members = []
        return found + ([Instance(members, None)] if members else [])


# Queries -------------------------------------------------------------------------------------------------------------


class Query(Protocol):
    """A query as a function from rows, in their order, to results, in theirs."""

    @property
    def sql(self) -> str: ...

    @property
    def streams(self) -> frozenset[str]: ...

    def results(self, rows: dict[str, list[Row]], latest: int) -> list[Result]: ...

    def drained(self, rows: dict[str, list[Row]], position: int, latest: int) -> int:
        """Return the first position from which on no row before `position` can count in a result.

        NEVER if no row up to the latest has shown that there is one.
        """
        ...


@dataclass(frozen=True)
class Filter:
    """Select rows of one stream; its window makes no difference."""

    stream: str
    window: str
    where: tuple[Condition, ...]
    outputs: tuple[tuple[str, str], ...]
    """(name, column)."""

    @property
    def sql(self) -> str:
        select = ", ".join(f"{column} AS {name}" for name, column in self.outputs)
        return f"SELECT {select} FROM {self.stream} {self.window}{where_clause(self.where)}"

    @property
    def streams(self) -> frozenset[str]:
        return frozenset([self.stream])

    def results(self, rows: dict[str, list[Row]], latest: int) -> list[Result]:
        passing = [of_row(r) for r in rows[self.stream] if all(c.holds(r.values) for c in self.where)]
        return [
            Result({name: r.values[column] for name, column in self.outputs}, r.depends, r.trigger, r.time)
            for r in passing
        ]

    def drained(self, rows: dict[str, list[Row]], position: int, latest: int) -> int:
        return position


@dataclass(frozen=True)
class Aggregates:
    """Aggregates over the instances of a window of a stream, or of another such query."""

    below: "str | Aggregates"
    window: InstanceWindow
    outputs: tuple[tuple[str, str, str], ...]
    """(name, function, column): function "" for the column itself, column "*" for COUNT(*)."""
    where: tuple[Condition, ...] = ()
    group_by: str | None = None

    @property
    def sql(self) -> str:
        select = ", ".join(f"{f'{f}({c})' if f else c} AS {name}" for name, f, c in self.outputs)
        source = self.below if isinstance(self.below, str) else f"({self.below.sql})"
        by = f" GROUP BY {self.group_by}" if self.group_by else ""
        return f"SELECT {select} FROM {source} {self.window}{where_clause(self.where)}{by}"

    @property
    def streams(self) -> frozenset[str]:
        return frozenset([self.below]) if isinstance(self.below, str) else self.below.streams

    def items(self, rows: dict[str, list[Row]], latest: int) -> list[Result]:
        """Return what the window runs over."""
        if isinstance(self.below, str):
            return [of_row(r) for r in rows[self.below]]
        return self.below.results(rows, latest)

    def results(self, rows: dict[str, list[Row]], latest: int) -> list[Result]:
        items = self.items(rows, latest)
        place = {id(item): n for n, item in enumerate(items)}
        found = []
        for instance in self.window.instances(items, latest):
            if instance.closes is None:
                continue
            for members in self._groups(instance):
                depends = frozenset().union(*(m.depends for m in members or instance.members))
                result = Result(
                    {name: _aggregate(f, c, members) for name, f, c in self.outputs},
                    depends,
                    instance.closes,
                    max(m.time for m in members or instance.members),
                )
                # By what closed the instance, then by the latest member of the group.
                closed_by = place[id(instance.members[-1])]
                latest_member = max(place[id(m)] for m in members or instance.members)
                found.append(((instance.closes, closed_by, latest_member), result))
        return [result for _, result in sorted(found, key=lambda pair: pair[0])]

    def _groups(self, instance: Instance) -> list[list[Result]]:
        """Return the members that pass, by group; without GROUP BY there is one group, maybe of no member."""
        passing = [m for m in instance.members if all(c.holds(m.values) for c in self.where)]
        if self.group_by is None:
            return [passing]
        groups: dict[Value, list[Result]] = {}
        for m in passing:
            groups.setdefault(m.values[self.group_by], []).append(m)
        return list(groups.values())

    def drained(self, rows: dict[str, list[Row]], position: int, latest: int) -> int:
        below = position if isinstance(self.below, str) else self.below.drained(rows, position, latest)
        ends = [max(position, below)]
        for instance in self.window.instances(self.items(rows, latest), latest):
            if instance.has_row_before(position):
                if instance.closes is not None:
                    # A time instance closes before the rows of its end, any other one after the row that closes it.
                    ends.append(instance.closes[0] + (0 if instance.closes[1] < 0 else 1))
                else:
                    ends.append(NEVER)
        return max(ends)


def _aggregate(function: str, column: str, members: Sequence[Result]) -> Value:
    if function == "":
        return members[0].values[column]
    if column == "*":
        return len(members)
    values = [v for m in members if (v := m.values[column]) is not None]
    if function == "COUNT":
        return len(values)
    if not values:
        return None
    match function:
        case "SUM":
            return sum(values)
        case "MIN":
            return min(values)
        case "MAX":
            return max(values)
        case "AVG":
            return sum(values) / len(values)
        case "MEDIAN":
            return float(median(values))
        case "SPREAD":
            return max(values) - min(values)
    raise ValueError(function)


@dataclass(frozen=True)
class Source:
    """A stream in a join: `[RANGE w]` if `width_us` is given, else `[ROWS n]`, of the stream or of each key."""

    alias: str
    stream: str
    width_us: int | None = None
    count: int = 0
    by: str | None = None

    def __str__(self) -> str:
        if self.width_us is not None:
            return f"{self.stream} [RANGE {self.width_us} MICROSECONDS] {self.alias}"
        return f"{self.stream} [ROWS {self.count}{f' PARTITION BY {self.by}' if self.by else ''}] {self.alias}"

    def leaves(self, rows: list[Row]) -> dict[Row, Trigger]:
        """Return where each row of the stream is in its window no more, whatever stream brings us there."""
        if self.width_us is not None:
            return {row: (row.time + self.width_us + 1, -1, -1) for row in rows}
        out = {}
        for row in rows:
            after = self._after(row, rows)
            out[row] = after[self.count - 1].key if len(after) >= self.count else (NEVER, -1, -1)
        return out

    def _after(self, row: Row, rows: list[Row]) -> list[Row]:
        """Return the rows that push another out of a counted window, bit by bit."""
        same = [r for r in rows if self.by is None or r.values[self.by] == row.values[self.by]]
        return [r for r in same if r.key > row.key]

    def drained(self, rows: list[Row], position: int, passes: Callable[[Row], bool]) -> int:
        """Return the position from which on no row before `position` that counts can be in the window."""
        if self.width_us is not None:
            return position + self.width_us  # a row of position - 1 meets rows up to position - 1 + width
        ends = [position]
        for row in (r for r in rows if r.time < position and passes(r)):
            after = self._after(row, rows)
            ends.append(after[self.count - 1].time + 1 if len(after) >= self.count else NEVER)
        return max(ends)


@dataclass(frozen=True)
class Join:
    """A sliding join of streams, no stream twice: each row is in its window when the last one arrives."""

    sources: tuple[Source, ...]
    on: tuple[tuple[str, str, str], ...]
    """(alias.column, op, alias.column) with op "=" or "<"."""
    where: tuple[Condition, ...]
    """Columns as alias.column."""
    outputs: tuple[tuple[str, str], ...]
    """(name, alias.column)."""

    @property
    def sql(self) -> str:
        select = ", ".join(f"{column} AS {name}" for name, column in self.outputs)
        conditions = [*(f"{a} {op} {b}" for a, op, b in self.on), *self.where]
        return f"SELECT {select} FROM {', '.join(map(str, self.sources))}{where_clause(conditions)}"

    @property
    def streams(self) -> frozenset[str]:
        return frozenset(s.stream for s in self.sources)

    def results(self, rows: dict[str, list[Row]], latest: int) -> list[Result]:
        found = []
        leaves = [s.leaves(rows[s.stream]) for s in self.sources]
        for combination in self._combinations(leaves, ()):
            last = max(combination, key=lambda row: row.key)
            values = self._values(combination)
            depends = frozenset(combination)
            result = Result({n: values[c] for n, c in self.outputs}, depends, last.key, last.time)
            found.append(((last.key, [row.key for row in combination]), result))
        return [result for _, result in sorted(found, key=lambda pair: pair[0])]

    def _combinations(self, leaves: Sequence[dict[Row, Trigger]], chosen: tuple[Row, ...]) -> Iterable[tuple[Row, ...]]:
        """Yield the combinations that satisfy the predicates, each row in its window when the last one arrives."""
        if len(chosen) == len(self.sources):
            yield chosen
            return
        first_end = min((of[row] for of, row in zip(leaves, chosen, strict=False)), default=(NEVER, 0, 0))
        last = max((row.key for row in chosen), default=(BEGINNING, 0, 0))
        for row, end in leaves[len(chosen)].items():
            together = max(last, row.key) < min(first_end, end)
            if together and self._satisfies((*chosen, row)):
                yield from self._combinations(leaves, (*chosen, row))

    def _values(self, combination: tuple[Row, ...]) -> dict[str, Value]:
        return {
            f"{source.alias}.{name}": value
            for source, row in zip(self.sources, combination, strict=False)
            for name, value in row.values.items()
        }

    def _satisfies(self, combination: tuple[Row, ...]) -> bool:
        """Tell whether the predicates that can be tested already are true."""
        values = self._values(combination)
        for a, op, b in self.on:
            if a in values and b in values:
                left, right = values[a], values[b]
                if left is None or right is None or not (left == right if op == "=" else left < right):
                    return False
        return all(c.holds(values) for c in self.where if c.column in values)

    def _passes(self, source: Source, row: Row) -> bool:
        """Tell whether a row alone satisfies what is asked of its stream."""
        values = {f"{source.alias}.{name}": value for name, value in row.values.items()}
        return all(c.holds(values) for c in self.where if c.column in values)

    def drained(self, rows: dict[str, list[Row]], position: int, latest: int) -> int:
        ends = [(s, s.drained(rows[s.stream], position, lambda r, s=s: self._passes(s, r))) for s in self.sources]
        # A row has passed where a counted window is over; of a window of time only the clock says so.
        return max(NEVER if s.width_us is not None and end > latest else end for s, end in ends)
