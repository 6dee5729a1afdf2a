"""Random hopping queries over random streams."""

import math
import random
import re
from dataclasses import replace
from itertools import count

import pyarrow as pa

from oracle.hop_queries import (
    COLUMN,
    COLUMNS,
    INT,
    REAL,
    TEXT,
    Absent,
    Body,
    Derived,
    HopCase,
    Item,
    Output,
    Row,
    Select,
    SetOperation,
    Stream,
    Window,
    times_of,
)
from oracle.hop_recompute import in_window, snapshots

KINDS = ("select", "distinct", "join", "absent", "set", "subquery", "group", "aggregate", "pushable")
"""What a drawn query is at its root; below it anything may be."""
MOST_ROWS = 800
"""How many rows an answer, or a join below it, may be expected to have."""


def draw_case(rnd: random.Random, kind: str | None = None, rows: int = 60) -> HopCase:
    """Draw a case, of one of `KINDS` if it is given, with streams of about `rows` rows at most."""
    kind = kind or rnd.choice(KINDS)
    most = rows
    while True:
        case = _Draw(rnd, most).case(kind)
        if _weight(case, case.body)[1] > MOST_ROWS:
            most = max(6, most * 3 // 4)
        elif rnd.random() < 0.12 or any(answer for _, answer in snapshots(case)):  # few are to say nothing at all
            return case


def _weight(case: HopCase, body: Body) -> tuple[float, float]:
    """Guess how many rows an answer has, and how many the largest join in it has."""
    if isinstance(body, SetOperation):
        (a, most_a), (b, most_b) = _weight(case, body.left), _weight(case, body.right)
        return a + b, max(a + b, most_a, most_b)
    rows, most, raw = 1.0, 0.0, 1.0
    keys = max(len(set(t.column("k").to_pylist())) for t in case.streams.values()) / 1.5 or 1.0
    for item, conditions in zip(body.items, body.on, strict=True):
        if isinstance(item, Stream):
            table = case.streams[item.name]
            held: float = max((len(in_window(table, item.window, hop)) for hop in case.hops), default=0)
        else:
            held, most_below = _weight(case, item.body)
            most = max(most, most_below)
        raw *= max(1.0, held)
        rows *= max(1.0, held)
        for condition in conditions:
            rows /= keys if " = " in condition else 1.2
    return rows, max(most, rows, raw / 25)


class _Draw:
    """The draw of one case: streams first, then windows that go with their times, then a query."""

    def __init__(self, rnd: random.Random, most: int) -> None:
        self.rnd = rnd
        self.names = ["a", "b", "c", "d"][: rnd.choice([2, 3, 3, 4])]
        self.tick = rnd.choice([1, 1000, 250_000, 1_000_000])
        self.hop = rnd.choice([1, 2, 3, 4, 4, 5, 8, 10])
        ratios = [
            rnd.choice([0.1, 0.1, 0.2, 0.25, 0.25, 0.3, 0.5, 0.5, 0.75, 1.0, 1.0, 1.5])
            for _ in range(rnd.choice([1, 2, 3]))
        ]
        self.widths = [max(1, round(self.hop / r)) for r in ratios]
        self.counted = rnd.choice([0.0, 0.0, 0.2, 0.6])
        self.streams = self.draw_streams(most)
        self.unique_aliases = rnd.random() < 0.4
        self.aliases = 0

    def case(self, kind: str) -> HopCase:
        rnd = self.rnd
        body = getattr(self, f"draw_{kind}")()
        times = [t for table in self.streams.values() for t in times_of(table)]
        span = max(times, default=0) - min(times, default=0) + 1
        hop = self.hop * self.tick
        batch = rnd.choice([span + 1, 1_000_000_000_000, max(1, span // 2), hop, hop * 5 // 2, hop // 3, self.tick])
        batch = max(batch, span // 40, 1)
        emit = rnd.choice(["complete", "delta"])
        return HopCase(kind, self.streams, body, hop, emit, batch, rnd.choice([1, 1, 2, 3]), rnd.random() < 0.5)

    # Rows

    def draw_streams(self, most: int) -> dict[str, pa.Table]:
        rnd = self.rnd
        span = self.hop * min(rnd.choice([3, 8, 20, 20, 35]), max(3, most // 2))
        gaps = [
            (rnd.randrange(span), max(self.widths) + self.hop * rnd.randint(1, 5))
            for _ in range(rnd.choice([0, 0, 1, 1, 2]))
        ]
        base = rnd.choice([0, 0, 0, 3, 1_000_003, 1_700_000_000_000_000, -7]) * (1 if rnd.random() < 0.5 else self.tick)
        base = base if abs(base) < 2**51 else 1_700_000_000_000_000
        self.time_type = rnd.choice([pa.int64(), pa.int64(), pa.timestamp("us")])
        self.int_type = rnd.choice([pa.int64(), pa.int64(), pa.int32()])
        self.nulls = rnd.choice([0.0, 0.08, 0.08, 0.25])
        self.keys = rnd.choice([1, 2, 3, 3, 5])
        self.values = rnd.choice([(0, 2), (0, 5), (-3, 9)])
        self.reals = [n / 4 for n in range(-3, 6)]
        if rnd.random() < 0.3:
            self.reals = [0.0, -0.0, math.nan, 0.25, 1.5]
        self.jitter = rnd.random() < 0.2
        return {name: self.draw_stream(most, span, gaps, base) for name in self.names}

    def draw_stream(self, most: int, span: int, gaps: list[tuple[int, int]], base: int) -> pa.Table:
        rnd = self.rnd
        count = rnd.choices([0, rnd.randint(1, 5), rnd.randint(most // 3, most), most], [1, 2, 15, 15])[0]
        first, last = rnd.choice([(0, span), (0, span), (0, span), (0, span // 2 + 1), (span // 3, span)])
        times = [rnd.randrange(first, max(last, first + 1)) for _ in range(count)]
        if rnd.random() < 0.3:  # bursts
            centres = [rnd.randrange(first, max(last, first + 1)) for _ in range(rnd.randint(1, 4))]
            times = [rnd.choice(centres) + rnd.choice([0, 0, 1, 2]) for _ in times]
        if rnd.random() < 0.15:  # at hops only
            times = [t // self.hop * self.hop for t in times]
        if rnd.random() < 0.85:  # the others talk on in the gaps
            times = [t + sum(wide for at, wide in gaps if t >= at) for t in times]
        stamps = sorted(base + t * self.tick + (rnd.randrange(self.tick) if self.jitter else 0) for t in times)
        rows = [self.draw_row() for _ in stamps]
        for i in range(1, len(rows)):
            if rnd.random() < 0.12:
                rows[i] = rows[rnd.randrange(i)]
        types = [self.int_type, self.int_type, pa.float64(), pa.string()]
        columns = {
            name: pa.array([row[i] for row in rows], t) for i, (name, t) in enumerate(zip(COLUMNS, types, strict=True))
        }
        return pa.table({"ts": pa.array(stamps, pa.int64()).cast(self.time_type), **columns})

    def draw_row(self) -> Row:
        rnd = self.rnd
        values = (
            rnd.randrange(self.keys),
            rnd.randint(*self.values),
            rnd.choice(self.reals),
            rnd.choice(["a", "b", "ab", "B", ""][: self.keys + 1]),
        )
        return tuple(None if rnd.random() < self.nulls else v for v in values)

    # Streams in FROM

    def draw_window(self) -> Window:
        rnd = self.rnd
        if rnd.random() >= self.counted:
            return Window(width_us=rnd.choice(self.widths) * self.tick)
        by: tuple[str, ...] = rnd.choice([(), ("k",), ("k",), ("s",), ("k", "s")])
        return Window(rows=rnd.choice([1, 2, 3, 7]) if by else rnd.choice([1, 2, 5, 15]), by=by)

    def draw_alias(self, name: str, taken: list[str]) -> str:
        """Draw an alias: distinct in the whole query, or only among those it can be confused with."""
        if self.unique_aliases:
            self.aliases += 1
            return f"{name}{self.aliases}"
        free = [n for n in (name, name, name, "p", "q", "r", "t", "u", "w") if n not in taken]
        return self.rnd.choice(free)

    def draw_item(self, taken: list[str], name: str = "", window: Window | None = None) -> Stream:
        name = name or self.rnd.choice(self.names)
        alias = self.draw_alias(name, taken)
        taken.append(alias)
        return Stream(name, window or self.draw_window(), alias, self.rnd.random() < 0.15)

    def draw_derived(self, taken: list[str], depth: int) -> Derived:
        """Draw a subquery with a key and a number."""
        alias = self.draw_alias("d_", taken)
        taken.append(alias)
        shape = self.rnd.choice([(INT, INT), (INT, INT), (INT, REAL), (INT, INT, TEXT)])
        return Derived(self.draw_body(shape, depth - 1), alias)

    # Expressions

    def column(self, items: list[Item], kind: str) -> str:
        """Draw a column of a kind; there is always one of integers."""
        found = [f"{i.alias}.{c}" for i in items for c, k in i.columns.items() if k == kind]
        return self.rnd.choice(found) if found else ""

    def value(self, items: list[Item], kind: str) -> tuple[str, str]:
        """Draw an expression; where there are no columns of a kind, and sometimes for reals, it is another kind."""
        rnd = self.rnd
        column, number = self.column(items, kind), self.column(items, INT)
        if rnd.random() < 0.72 and column:
            return column, kind
        if kind == TEXT:
            if not column:
                return f"CASE WHEN {number} > 1 THEN 'a' ELSE 'b' END", TEXT
            texts = [f"upper({column})", f"coalesce({column}, 'a')", f"{column} || '!'", "'a'"]
            return rnd.choice(texts), TEXT
        if kind == REAL:
            if not column or rnd.random() < 0.3:
                return (number, INT) if rnd.random() < 0.5 else (f"CAST({number} AS DOUBLE)", REAL)
            return rnd.choice(
                [f"{column} * 2", f"coalesce({column}, 0.25)", f"{column} + {number}", f"abs({column})"]
            ), REAL
        other = self.column(items, INT)
        forms = [
            f"{number} + 1",
            f"coalesce({number}, 0)",
            f"{number} + {other}",
            f"{number} % 3",
            f"abs({number})",
            f"CASE WHEN {number} > 1 THEN {other} ELSE 0 END",
            "1",
        ]
        return rnd.choice(forms), INT

    def condition(self, items: list[Item]) -> str:
        """Draw a filter."""
        rnd = self.rnd
        n, m = self.column(items, INT), self.column(items, INT)
        forms = [
            f"{n} > {rnd.randint(0, 2)}",
            f"{n} IS NOT NULL",
            f"{n} IN (0, 2, 3)",
            f"NOT ({n} = 1)",
            f"({n} = 1 OR {m} > 2)",
            f"{n} + {m} < {rnd.randint(1, 6)}",
        ]
        x, s = self.column(items, REAL), self.column(items, TEXT)
        forms += [f"{x} > 0.25", f"{x} <> 0", f"{x} BETWEEN -0.5 AND 1", f"{x} IS NULL"] if x else []
        forms += [f"{s} <> 'b'", f"{s} LIKE 'a%'", f"({s} = 'a' OR {n} < 3)"] if s else []
        forms += ["1 > 2"] if rnd.random() < 0.1 else []
        return rnd.choice(forms)

    def conditions(self, items: list[Item], chance: float = 0.25) -> tuple[str, ...]:
        return tuple(self.condition(items) for _ in range(2) if self.rnd.random() < chance)

    def match(self, left: list[Item], right: Item, style: str) -> list[str]:
        """Draw what joins an item with those before it: by `equi`, `theta`, `cross` or `mixed`."""
        rnd, other = self.rnd, self.rnd.choice(left)
        style = rnd.choice(["equi", "equi", "equi", "theta"]) if style == "mixed" else style
        if style == "cross":
            return []
        n, m = self.column([other], INT), self.column([right], INT)
        if style == "theta":
            forms = [f"{n} < {m}", f"{n} <> {m}", f"{n} >= {m} + 1", f"{n} BETWEEN {m} - 1 AND {m} + 1"]
            if isinstance(other, Stream) and isinstance(right, Stream):
                forms += [f"{other.alias}.ts <= {right.alias}.ts", f"{other.alias}.x < {right.alias}.x"]
            return [rnd.choice(forms)]
        shared = [c for c, k in other.columns.items() if right.columns.get(c) == k]
        keys = [c for c in shared if c == "k"] * 4 + shared
        found = [f"{other.alias}.{c} = {right.alias}.{c}" for c in rnd.sample(keys, min(len(keys), 1))]
        if not found or rnd.random() < 0.15:
            found = [rnd.choice([f"{n} = {m}", f"{n} + 1 = {m}", f"{m} = {n}"])]
        if rnd.random() < 0.25:
            found.append(rnd.choice([f"({n} + {m}) % 2 = 0", f"{n} <= {m}", f"({n} <> {m} OR {n} = 1)", f"{n} = {m}"]))
        if len(left) > 1 and rnd.random() < 0.2:  # a third item has its say
            third = self.column(left, INT)
            found.append(rnd.choice([f"{third} = {m}", f"{third} + {n} >= {m}"]))
        return found

    # Queries

    def items(self, least: int, most: int, depth: int, taken: list[str]) -> tuple[list[Item], list[tuple[str, ...]]]:
        """Draw what FROM lists and the conditions each item brings."""
        rnd = self.rnd
        count = rnd.randint(least, most)
        style = rnd.choice(["equi", "equi", "equi", "mixed", "mixed", "theta", "cross"])
        items: list[Item] = []
        on: list[tuple[str, ...]] = []
        for _ in range(count):
            item = self.draw_derived(taken, depth) if depth > 0 and rnd.random() < 0.15 else self.draw_item(taken)
            on.append(tuple(self.match(items, item, style)) if items else ())
            items.append(item)
        return items, on

    def outputs(self, values: list[tuple[str, str]]) -> tuple[Output, ...]:
        """Give names to a select list: that of the column if it is free."""
        found: list[Output] = []
        for text, kind in values:
            taken = [o.name for o in found]
            own = re.fullmatch(COLUMN, text)
            if own and own[1] not in taken and self.rnd.random() < 0.6:
                found.append(Output(text, kind, own[1]))
            else:
                found.append(Output(text, kind, next(n for i in count() if (n := f"o{i}") not in taken)))
        return tuple(found)

    def shape(self) -> tuple[str, ...]:
        return self.rnd.choice(
            [(INT, INT), (INT, INT), (INT,), (INT, REAL), (INT, TEXT), (TEXT, INT), (INT, INT, REAL, TEXT)]
        )

    def plain_select(self, shape: tuple[str, ...], least: int = 1, most: int = 1, depth: int = 0) -> Select:
        taken: list[str] = []
        items, on = self.items(least, most, depth, taken)
        outputs = self.outputs([self.value(items, kind) for kind in shape])
        explicit = self.rnd.random() < 0.3
        return Select(outputs, tuple(items), tuple(on), self.conditions(items), explicit=explicit)

    def with_absent(self, select: Select, several: bool = True) -> Select:
        """Add one NOT EXISTS or more."""
        rnd = self.rnd
        found: list[Absent] = []
        for _ in range(rnd.choice([1, 1, 2, 3]) if several else 1):
            taken = [i.alias for i in select.items] + [a.item.alias for a in found]
            narrow = Window(width_us=min(self.widths) * self.tick)
            inner = self.draw_item(taken, window=narrow if rnd.random() < 0.5 else None)
            style = rnd.choice(["equi", "equi", "equi", "theta"]) if rnd.random() < 0.95 else "cross"
            conditions = [*self.match(list(select.items), inner, style), *self.conditions([inner], 0.4)]
            if rnd.random() < 0.1:
                conditions.append(self.condition(list(select.items)))
            found.append(Absent(inner, tuple(conditions)))
        return replace(select, absent=tuple(found))

    def aggregate(self, items: list[Item], kind: str) -> tuple[str, str]:
        """Draw an aggregate that gives a kind."""
        rnd = self.rnd
        n, x, s = (self.column(items, k) for k in (INT, REAL, TEXT))
        if kind == TEXT and s:
            return f"{rnd.choice(['MIN', 'MAX'])}({s})", TEXT
        if kind == REAL:
            argument = x if x and rnd.random() < 0.6 else ""
            function = rnd.choice(["AVG", "MEDIAN", "SUM", "MIN", "MAX"] if argument else ["AVG", "MEDIAN"])
            return f"{function}({argument or n})", REAL
        forms = [
            "COUNT(*)",
            "COUNT(*)",
            f"COUNT({n})",
            f"COUNT(DISTINCT {n})",
            f"SUM({n})",
            f"SUM({n})",
            f"MIN({n})",
            f"MAX({n})",
        ]
        forms += [f"COUNT(DISTINCT {x})"] if x else []
        forms += [f"COUNT(DISTINCT {s})", f"COUNT({s})"] if s else []
        forms += [f"SUM({n} + 1)", f"SUM({n}) + COUNT(*)", f"SUM(DISTINCT {n})", f"MAX({n}) - MIN({n})"]
        text = rnd.choice(forms)
        return (f"CASE WHEN {text} > 1 THEN 'many' ELSE 'few' END", TEXT) if kind == TEXT else (text, INT)

    def grouped(self, shape: tuple[str, ...], depth: int, keyed: bool = True) -> Select:
        """Draw aggregates of a stream, of a join, or of a subquery."""
        rnd = self.rnd
        taken: list[str] = []
        items: list[Item]
        on: list[tuple[str, ...]]
        if depth > 0 and rnd.random() < 0.3:
            items, on = [self.draw_derived(taken, depth)], [()]
        else:
            items, on = self.items(1, rnd.choice([1, 1, 2, 3]), depth, taken)
        keys: list[tuple[str, str]] = []
        if keyed:
            for kind in rnd.choice([(INT,), (INT,), (INT, INT), (TEXT,), (INT, TEXT), (REAL,)]):
                text, given = self.value(items, kind)
                if text[0].isalpha() and text not in [k for k, _ in keys]:  # not a constant
                    keys.append((text, given))
            keys = keys or [(self.column(items, INT), INT)]
        values = []
        for kind in shape:
            fitting = [k for k in keys if k[1] == kind and k not in values]
            values.append(rnd.choice(fitting) if fitting and rnd.random() < 0.65 else self.aggregate(items, kind))
        n = self.column(items, INT)
        having = [
            "COUNT(*) > 1",
            f"SUM({n}) > 2",
            f"MIN({n}) IS NOT NULL",
            f"COUNT(DISTINCT {n}) < 3",
            f"AVG({n}) >= 1",
        ]
        having += [f"{keys[0][0]} IS NOT NULL"] if keys else []
        chosen = rnd.choice(having) if rnd.random() < (0.35 if keyed else 0.08) else ""
        group = tuple(text for text, _ in keys)
        where = self.conditions(items, 0.3)
        return Select(self.outputs(values), tuple(items), tuple(on), where, keys=group, having=chosen)

    def set_operation(self, shape: tuple[str, ...], depth: int) -> SetOperation:
        rnd = self.rnd
        op = rnd.choice(["EXCEPT", "EXCEPT", "EXCEPT ALL", "EXCEPT ALL", "UNION", "UNION ALL"])
        left, right = (self.draw_body(shape, depth - 1) for _ in range(2))
        if op.startswith("EXCEPT") and not self.unique_aliases and rnd.random() < 0.6:  # sides that have rows in common
            right = self.variant(left)
        return SetOperation(op, left, right, rnd.random() < 0.3)

    def variant(self, body: Body) -> Body:
        """Return a query like another: of other windows, under another filter."""
        if isinstance(body, SetOperation):
            return replace(body, left=self.variant(body.left))
        first, *others = body.items
        if isinstance(first, Stream):
            first = replace(first, window=self.draw_window())
        where = body.where if self.rnd.random() < 0.5 else self.conditions(list(body.items))
        return replace(body, items=(first, *others), where=where)

    def draw_body(self, shape: tuple[str, ...], depth: int) -> Body:
        """Draw any query with columns of the given kinds."""
        rnd = self.rnd
        kind = rnd.random()
        if kind < 0.35:
            return self.plain_select(shape)
        if kind < 0.42:
            return replace(self.plain_select(shape), distinct=True)
        if kind < 0.62:
            return self.plain_select(shape, 2, 2, depth)
        if kind < 0.7:
            return self.with_absent(self.plain_select(shape), several=False)
        if kind < 0.8 or depth <= 0:
            return self.grouped(shape, depth)
        return self.set_operation(shape, depth)

    def draw_select(self) -> Body:
        return self.plain_select(self.shape())

    def draw_distinct(self) -> Body:
        if self.rnd.random() < 0.1:
            return replace(self.grouped(self.shape(), 1), distinct=True)
        return replace(self.plain_select(self.shape(), 1, self.rnd.choice([1, 1, 2]), 1), distinct=True)

    def draw_join(self) -> Body:
        return self.plain_select(self.shape(), 2, 4, 1)

    def draw_absent(self) -> Body:
        select = self.with_absent(self.plain_select(self.shape(), 1, 3, 1))
        return replace(select, distinct=self.rnd.random() < 0.1)

    def draw_set(self) -> Body:
        return self.set_operation(self.shape(), self.rnd.choice([1, 2, 2, 3]))

    def draw_subquery(self) -> Body:
        """Draw a subquery, mostly a set operation, joined with streams."""
        rnd = self.rnd
        taken: list[str] = []
        derived = self.draw_derived(taken, 1)
        if rnd.random() < 0.7:
            shape = rnd.choice([(INT, INT), (INT, TEXT), (INT, REAL)])
            derived = Derived(self.set_operation(shape, rnd.choice([1, 1, 2])), derived.alias)
        items: list[Item] = [derived]
        on: list[tuple[str, ...]] = [()]
        for _ in range(rnd.choice([0, 1, 1, 1, 2])):
            item = self.draw_item(taken)
            on.append(tuple(self.match(items, item, "mixed")))
            items.append(item)
        if len(items) == 2 and rnd.random() < 0.3:
            items.reverse()
        select = Select(self.outputs([self.value(items, k) for k in self.shape()]), tuple(items), tuple(on))
        select = replace(select, where=self.conditions(items, 0.25), explicit=rnd.random() < 0.2)
        return self.with_absent(select, several=False) if rnd.random() < 0.15 else select

    def draw_group(self) -> Body:
        return self.grouped(aggregated_shape(self.rnd), 2)

    def draw_aggregate(self) -> Body:
        return self.grouped(aggregated_shape(self.rnd), 2, keyed=False)

    def draw_pushable(self) -> Body:
        """Draw a difference of two joins with a part in common: under the difference, if everything fits.

        Mostly it fits: the same windows, the same conditions, all columns selected; sometimes one of these does not.
        """
        rnd = self.rnd
        one, two, common = (self.names * 2)[:3] if rnd.random() < 0.7 else [rnd.choice(self.names) for _ in range(3)]
        shared = self.draw_window()
        own = self.draw_window()
        outer = rnd.choice(["k", "k", "k", "s", "v"])
        compare = rnd.choice(["=", "=", "=", "=", "<"])
        filters = [
            rnd.choice(["", "", "{c}.v > 0", "{c}.s <> 'b'"]),
            rnd.choice(["", "", "{o}.v < 4", "{o}.k IS NOT NULL"]),
        ]
        lists = ["{o}.k, {o}.v, {c}.v", "{o}.k, {o}.v, {c}.k, {c}.v", "{c}.v, {o}.k, {o}.v", "{o}.k, {c}.s, {o}.v"]
        columns = rnd.choice([*lists, "{o}.v, {c}.v", "{o}.k", "{o}.k + 1, {c}.v"]).split(", ")
        sides, common_first = [], rnd.random() < 0.3
        third = self.draw_window() if rnd.random() < 0.2 else None
        for number, name in enumerate([one, two]):
            taken: list[str] = []
            window = shared if number == 0 or rnd.random() < 0.85 else self.draw_window()
            o = self.draw_item(taken, name, own if rnd.random() < 0.7 else None)
            c = self.draw_item(taken, common, window)
            names = {"o": o.alias, "c": c.alias}
            values = [(text.format(**names), COLUMNS[text.split(".")[1][0]]) for text in columns]
            items: list[Item] = [c, o] if common_first else [o, c]
            on: list[tuple[str, ...]] = [(), (f"{o.alias}.{outer} {compare} {c.alias}.{outer}",)]
            if third:
                more = self.draw_item(taken, self.names[-1], third)
                items.append(more)
                on.append((f"{c.alias}.k = {more.alias}.k",))
            kept = [f for f in filters if f and (number == 0 or rnd.random() < 0.85)]
            where = tuple(f.format(**names) for f in kept)
            sides.append(Select(self.outputs(values), tuple(items), tuple(on), where))
        difference = SetOperation(rnd.choice(["EXCEPT", "EXCEPT ALL"]), sides[0], sides[1])
        if rnd.random() < 0.8:
            return difference
        derived = Derived(difference, self.draw_alias("d_", []))
        n = self.column([derived], INT)
        outputs = self.outputs([(n, INT), ("COUNT(*)", INT)])
        return Select(outputs, (derived,), ((),), keys=(n,))


def aggregated_shape(rnd: random.Random) -> tuple[str, ...]:
    """Draw the kinds of columns of a query with aggregates."""
    return rnd.choice([(INT, INT), (INT, INT, REAL), (INT, REAL), (INT, INT, INT), (TEXT, INT), (INT, REAL, TEXT)])
