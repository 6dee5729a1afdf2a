"""Random hopping queries with differences, anti-joins and joins, their statistics, and small tables for them."""

import random
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from optimize.hopping.brute_force import Tables

from midstream.model.statistics import Statistics
from midstream.model.stream import StreamSchema
from midstream.optimize.hopping.cost import (
    ANTI,
    DIFFERENCE,
    DIFFERENCE_OF_BAGS,
    DISTINCT,
    GROUP,
    GROUP_ANEW,
    JOIN,
    NUMBERS,
    PROJECT,
    SELECT,
    UNION,
    Constants,
)
from midstream.plan.aggregates import Aggregate
from midstream.plan.algebra import (
    Anti,
    Distinct,
    Except,
    Group,
    Join,
    Project,
    Rel,
    Scan,
    Select,
    Union,
    operators,
    rewrite,
    scans,
)
from midstream.plan.expr import Call, Column, Expr, Literal, columns
from midstream.plan.source import Source
from midstream.plan.window import RangeWindow, RowsWindow

INT = pa.int64()
NAMES = ("k", "x", "y")
STREAMS = tuple(
    StreamSchema(f"s{i}", pa.schema([("t", pa.timestamp("us")), *((n, INT) for n in NAMES)]), "t") for i in range(6)
)
SECOND = 1_000_000


def call(function: str, *args: Expr) -> Call:
    return Call(function, args, INT if function in "+-" else pa.bool_())


def equal(a: Expr, b: Expr) -> Call:
    return call("=", a, b)


@dataclass
class RandomPlans:
    """Draws queries. `plain`: only what cost comparisons need, without odd forms that rules must refuse."""

    rng: random.Random
    plain: bool = False
    window_us: int = 10 * SECOND
    used: int = 0

    def scan(self, stream: int | None = None) -> Scan:
        number = self.rng.randrange(len(STREAMS)) if stream is None else stream
        self.used += 1
        alias = f"a{self.used}"
        source = Source(alias, STREAMS[number], number, RangeWindow(self.window_us * (1 + number % 3)))
        if not self.plain and number == 5:
            source = replace(source, window=RowsWindow(5, (Column(alias, "k", INT),)))
        return Scan(source, tuple(Column(alias, n, INT) for n in NAMES))

    def alias(self) -> str:
        self.used += 1
        return f"p{self.used}"

    def project(self, rel: Rel, exprs: list[Expr]) -> Rel:
        alias = self.alias()
        return Project(rel, tuple((Column(alias, f"c{i}", e.type), e) for i, e in enumerate(exprs)))

    def column(self, rel: Rel) -> Column:
        return self.rng.choice(rel.columns)

    def filtered(self, rel: Rel) -> Rel:
        if self.rng.random() < 0.7:
            return rel
        c = self.column(rel)
        tests = [equal(c, Literal(1, INT)), call("<", c, Literal(2, INT)), call("is null", c)]
        return Select(rel, (self.rng.choice(tests[: 2 if self.plain else 3]),))

    def joined(self, a: Rel, b: Rel) -> Rel:
        conjuncts: list[Expr] = [equal(self.column(a), self.column(b))]
        if self.rng.random() < 0.15:
            conjuncts.append(call("<", self.column(a), self.column(b)))
        if not self.plain and self.rng.random() < 0.1:
            conjuncts = []
        return Join(a, b, tuple(conjuncts))

    def anti(self, rel: Rel) -> Rel:
        right: Rel = self.filtered(self.scan())
        if self.rng.random() < 0.2:
            right = self.joined(right, self.scan())
        conjuncts: list[Expr] = [equal(self.column(rel), self.column(right))]
        if self.rng.random() < 0.25:
            conjuncts.append(call(self.rng.choice(["<", "="]), self.column(rel), self.column(right)))
        return Anti(rel, right, tuple(conjuncts))

    def block(self, size: int, streams: tuple[int, ...] = (0, 1, 2, 3, 4, 5)) -> Rel:
        rel: Rel = self.filtered(self.scan(self.rng.choice(streams)))
        for _ in range(size - 1):
            rel = self.joined(rel, self.filtered(self.scan(self.rng.choice(streams))))
        return self.anti(rel) if self.rng.random() < 0.1 else rel

    def twin_blocks(self, own: int, shared: int) -> tuple[Rel, Rel]:
        """Return two projected joins that share some streams, often so that these can be taken out of both."""
        rng = self.rng
        numbers = [rng.randrange(len(STREAMS)) for _ in range(shared)]
        between = [(rng.randrange(3), rng.randrange(3), rng.random() < 0.15) for _ in range(shared)]
        ons = [rng.randrange(-1, i) for i in range(shared)]
        tests = [rng.randrange(3) if rng.random() < 0.3 else None for _ in range(shared)]
        wanted = [rng.sample(range(3), rng.randrange(0, 3)) for _ in range(shared)]
        own_wanted = rng.sample(range(3), rng.randrange(1, 3))
        keys = rng.random() < (0.95 if self.plain else 0.7)
        sides = []
        for side in range(2):
            # A stream less itself is nothing, whose place nobody asks for.
            streams = ((0, 2, 4), (1, 3, 5))[side] if self.plain else (0, 1, 2, 3, 4, 5)
            mine = self.block(own if side == 0 or self.plain else rng.randrange(1, own + 1), streams)
            mine_first = mine.columns[:3]
            if not self.plain and rng.random() < 0.1:
                mine_first = tuple(rng.sample(mine.columns, 3))
            shares = [self.scan(n) for n in numbers]
            rel, outputs = mine, [mine_first[i] for i in own_wanted]
            for i, s in enumerate(shares):
                a = (mine_first if ons[i] < 0 else shares[ons[i]].columns)[between[i][0]]
                b = s.columns[between[i][1]]
                conjuncts: list[Expr] = [equal(a, b) if rng.random() < 0.5 else equal(b, a)]
                if between[i][2]:
                    conjuncts.append(call("<", a, s.columns[0]))
                leaf: Rel = s
                test = tests[i]
                if test is not None and (self.plain or rng.random() < 0.95):
                    leaf = Select(s, (equal(s.columns[test], Literal(1, INT)),))
                rel = Join(rel, leaf, tuple(conjuncts))
                outputs += [s.columns[j] for j in wanted[i]]
                if keys:
                    outputs.append(b if self.plain or rng.random() < 0.7 else a)
                    if between[i][2]:
                        outputs.append(a)
            sides.append(self.project(rel, list(outputs)))
        return sides[0], sides[1]

    def difference(self, size: int) -> Rel:
        rng = self.rng
        own = 1 if rng.random() < 0.7 else 2
        shared = max(0, min(size, rng.randrange(0, 4)))
        left, right = self.twin_blocks(own, shared)
        rel: Rel = Except(left, right, rng.random() < (0.8 if self.plain else 0.6))
        if not self.plain and rng.random() < 0.15:
            source = self.block(1)
            exprs = [source.columns[i % len(source.columns)] for i in range(len(rel.columns))]
            third = self.project(source, list(exprs))
            rel = Except(rel, third, rng.random() < 0.5)
        return rel

    def query(self) -> Rel:
        """Return a random query."""
        rng = self.rng
        rel: Rel
        start = rng.random()
        if start < 0.7:
            rel = self.difference(3)
        else:
            rel = self.block(rng.randrange(2, 5))
            rel = self.anti(rel)
        if rng.random() < 0.3:
            rel = self.filtered(rel)
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            rel = self.joined(rel, self.scan()) if rng.random() < 0.6 else self.joined(self.scan(), rel)
        if rng.random() < 0.25:
            rel = self.anti(rel)
        if rng.random() < 0.15:
            other = self.block(1)
            exprs = [other.columns[i % len(other.columns)] for i in range(len(rel.columns))]
            left = self.project(rel, list(rel.columns))
            rel = Except(left, self.project(other, list(exprs)), rng.random() < 0.7)
        return self.finished(rel)

    def finished(self, rel: Rel) -> Rel:
        rng = self.rng
        kinds = (
            ["project", "project", "distinct"] if self.plain else ["project", "project", "distinct", "group", "union"]
        )
        kind = rng.choice(kinds)
        some = rng.sample(rel.columns, rng.randrange(1, min(4, len(rel.columns)) + 1))
        exprs: list[Expr] = list(some)
        if not self.plain and rng.random() < 0.3:
            exprs.append(call("+", self.column(rel), Literal(1, INT)))
        if kind == "group":
            total = Aggregate("sum", self.column(rel), INT)
            return Group(rel, self.alias(), tuple(some[:1]), (Aggregate("count", None, INT), total))
        out = self.project(rel, exprs)
        if kind == "distinct":
            return Distinct(out)
        if kind == "union":
            other = self.block(1)
            again = self.project(other, [other.columns[i % 3] for i in range(len(exprs))])
            alias = self.alias()
            return Union(out, again, tuple(Column(alias, c.name, c.type) for c in out.columns))
        return out

    def small_query(self, most: int) -> Rel:
        """Return a query of no more operators than given, whose scans read only what is used."""
        while True:
            self.used = 0
            rel = read_only_used(self.query())
            if sum(1 for _ in operators(rel)) <= most and any(isinstance(n, Except | Anti) for n in operators(rel)):
                return rel

    def statistics(self, root: Rel) -> Statistics:
        """Return random statistics, the same for all scans of a stream."""
        rng = self.rng
        of_stream = [(10 ** rng.uniform(1, 4), [10 ** rng.uniform(0.5, 4) for _ in NAMES]) for _ in STREAMS]
        rates: dict[str, float] = {}
        distinct: dict[tuple[str, str], float] = {}
        for scan in scans(root):
            rates[scan.source.alias], values = of_stream[scan.source.position]
            distinct.update({(scan.source.alias, n): d for n, d in zip(NAMES, values, strict=True)})
        return Statistics(rows_per_s=rates, distinct=distinct)

    def tables(self) -> Tables:
        """Return a few rows for every stream, NULLs and doubles among them."""
        rng = self.rng
        out: Tables = {}
        for stream in STREAMS:
            rows = rng.choice([0, 2, 3, 4, 5, 6])
            values: list[Any] = rng.choice([[None, 0, 1, 1, 2], [None, 1, 1, 1], [1, 1, 2], [0, 1]])
            out[stream.name] = [{n: rng.choice(values) for n in NAMES} for _ in range(rows)]
        return out


def read_only_used(root: Rel) -> Rel:
    """Let every scan read only what is used above it, as queries in SQL do."""
    used: set[Column] = set(root.columns)
    for node in operators(root):
        match node:
            case Select(_, conjuncts) | Join(_, _, conjuncts) | Anti(_, _, conjuncts):
                used |= {c for e in conjuncts for c in columns(e)}
            case Project(_, outputs):
                used |= {c for _, e in outputs for c in columns(e)}
            case Group(_, _, keys, aggregates):
                exprs = [*keys, *(a.argument for a in aggregates if a.argument is not None)]
                used |= {c for e in exprs for c in columns(e)}
            case Except(left, right) | Union(left, right):
                used |= {*left.columns, *right.columns}
            case Distinct(child):
                used |= set(child.columns)

    def fewer(rel: Rel) -> Rel:
        if not isinstance(rel, Scan):
            return rel
        kept = tuple(c for c in rel.columns if c in used)
        return Scan(rel.source, kept or rel.columns[:1])

    return rewrite(root, fewer)


def drawn_constants(seed: int) -> Constants:
    """Return the constants of a machine whose operators differ; of every third, of one that was never calibrated."""
    rng = random.Random(f"machine {seed}")
    if seed % 3 == 0:
        return Constants()
    names = (JOIN, ANTI, UNION, SELECT, PROJECT, DISTINCT, DIFFERENCE, DIFFERENCE_OF_BAGS, GROUP, GROUP_ANEW)
    known = Constants()
    own = {
        operator: known.but({name: getattr(known, name) * 10 ** rng.uniform(-1, 1) for name in NUMBERS})
        for operator in names
        if rng.random() < 0.8
    }
    return replace(known, own=own)
