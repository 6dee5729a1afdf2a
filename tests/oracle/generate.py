"""Random cases: schemas, rows with ties and nulls, queries over 1-6 streams, windows, join trees.

`draw_case` takes anything that behaves like `random.Random`, so that the same generator serves fixed seeds and
hypothesis (which can then shrink what it finds).
"""

import datetime as dt
import decimal
import random
from dataclasses import dataclass, field

import pyarrow as pa

SECOND = 1_000_000
COLUMN_TYPES = {
    "k": [pa.int64(), pa.int32(), pa.int8()],
    "s": [pa.string()],
    "x": [pa.float64(), pa.float32()],
    "y": [pa.int64(), pa.int16()],
    "d": [pa.decimal128(6, 2), pa.decimal128(25, 3)],
    "e": [pa.date32()],
    "f": [pa.bool_()],
    "z": [pa.timestamp("us")],
}
NUMBERS = ("k", "x", "y", "d")


@dataclass
class Case:
    """A query, its streams, and what the recomputation needs to know of it."""

    streams: dict[str, pa.Table]
    sources: list[tuple[str, str]]
    """(alias, stream) in FROM order."""
    windows: dict[str, tuple[str, int, list[str]]]
    """alias -> ("range", width_us, []) or ("rows", count, partition columns)."""
    conditions: list[str]
    outputs: list[tuple[str, str]]
    tree: str
    join: str = "auto"
    ons: int = 0
    """How many streams are written with JOIN ... ON TRUE-like syntax instead of the FROM list."""
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def sql(self) -> str:
        select = ", ".join(f"{text} AS {name}" for name, text in self.outputs)
        sources = ", ".join(f"{stream} {self._window(alias)} {alias}" for alias, stream in self.sources)
        where = " WHERE " + " AND ".join(f"({c})" for c in self.conditions) if self.conditions else ""
        return f"SELECT {select} FROM {sources}{where}"

    def _window(self, alias: str) -> str:
        kind, size, by = self.windows[alias]
        if kind == "range":
            return f"[RANGE {size} MICROSECONDS]"
        return f"[ROWS {size}{' PARTITION BY ' + ', '.join(by) if by else ''}]"


def draw_case(rnd: random.Random, most_streams: int = 6, count: int | None = None) -> Case:
    """Draw a case small enough to recompute by hand; `count` is how many aliases it joins, if that is known."""
    if count is None:
        count = rnd.choice([n for n in (1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6) if n <= most_streams])
    aliases = [f"q{i}" for i in range(count)]
    streams = {f"s{i}": _draw_schema(rnd) for i in range(rnd.randint(1, len(aliases)))}
    names = list(streams)
    rnd.shuffle(names)  # declaration order is not FROM order
    pool = _Pool(rnd)
    most = {1: 60, 2: 60, 3: 50, 4: 40, 5: 30, 6: 24, 7: 20, 8: 18}[len(aliases)]
    counts = {name: 0 if rnd.random() < 0.02 else rnd.randint(most // 3, most) for name in names}
    tables = {name: _draw_rows(rnd, streams[name], counts[name], pool) for name in names}
    sources = [(alias, rnd.choice(list(streams))) for alias in aliases]
    types = {alias: streams[stream] for alias, stream in sources}
    windows = {alias: _draw_window(rnd, types[alias]) for alias in aliases}
    conditions, equal_everywhere = _draw_conditions(rnd, aliases, types)
    outputs = _draw_outputs(rnd, aliases, types)
    tree = draw_tree(rnd, aliases)
    join = rnd.choice(["auto", "auto", "nested-loop", "hash" if equal_everywhere else "auto"])
    return Case(tables, sources, windows, conditions, outputs, tree, join)


class _Pool:
    """Small domains, so that keys meet."""

    def __init__(self, rnd: random.Random) -> None:
        self.keys = rnd.choice([2, 4, 9])
        self.nulls = rnd.choice([0.0, 0.05, 0.2])
        self.span = rnd.choice([2, 8, 20]) * SECOND
        self.step = rnd.choice([1, 1000, 500_000])


def _draw_schema(rnd: random.Random) -> dict[str, pa.DataType]:
    chosen = {"k": rnd.choice(COLUMN_TYPES["k"]), "s": pa.string(), "y": rnd.choice(COLUMN_TYPES["y"])}
    for name in ("x", "d", "e", "f", "z"):
        if rnd.random() < 0.6:
            chosen[name] = rnd.choice(COLUMN_TYPES[name])
    return chosen


def _draw_rows(rnd: random.Random, schema: dict[str, pa.DataType], count: int, pool: _Pool) -> pa.Table:
    times = sorted(rnd.randrange(0, pool.span, 1) // pool.step * pool.step for _ in range(count))
    arrays = {"ts": pa.array(times, pa.int64() if rnd.random() < 0.7 else pa.timestamp("us"))}
    for name, kind in schema.items():
        values = [None if rnd.random() < pool.nulls else _draw_value(rnd, name, kind, pool) for _ in range(count)]
        arrays[name] = pa.array(values, kind)
    return pa.table(arrays)


def _draw_value(rnd: random.Random, name: str, kind: pa.DataType, pool: _Pool) -> object:
    n = rnd.randrange(pool.keys)
    match name:
        case "k":
            return n
        case "s":
            return ["", "a", "ab", "b", "Ünïcode", "a long string that is no short one", "c%", "d_", "e"][n]
        case "x":
            return rnd.choice([0.0, -0.0, 0.5, 1.0, 1.5, 2.0, -3.0, float("nan")]) if rnd.random() < 0.7 else n * 0.25
        case "y":
            return rnd.randint(-20, 20)
        case "d":
            return decimal.Decimal(rnd.randrange(-300, 300)) / 100 if rnd.random() < 0.4 else decimal.Decimal(n)
        case "e":
            return dt.date(2024, 1, 1) + dt.timedelta(days=n)
        case "f":
            return rnd.random() < 0.5
        case _:
            return dt.datetime(2024, 1, 1) + dt.timedelta(seconds=n)


def _draw_window(rnd: random.Random, schema: dict[str, pa.DataType]) -> tuple[str, int, list[str]]:
    if rnd.random() < 0.7:
        return "range", rnd.choice([0, 1000, 400_000, SECOND, 3 * SECOND, 3 * SECOND, 8 * SECOND, 60 * SECOND]), []
    by = rnd.sample(sorted(schema), rnd.choice([0, 1, 1, 2])) if rnd.random() < 0.6 else []
    return "rows", rnd.choice([1, 2, 3, 7, 15, 30]), by


def _draw_conditions(
    rnd: random.Random, aliases: list[str], types: dict[str, dict[str, pa.DataType]]
) -> tuple[list[str], bool]:
    """Draw conditions; also tell whether every pair is tied by one equality class, so that hash joins are possible."""
    conditions = []
    flavour = rnd.choice(["equi", "equi", "mixed", "mixed", "theta"])
    everywhere = len(aliases) > 1 and flavour == "equi" and rnd.random() < 0.6
    column = rnd.choice(["k", "s"])
    for i in range(1, len(aliases)):
        a, b = aliases[rnd.randrange(i)], aliases[i]
        if everywhere:
            conditions.append(f"{a}.{column} = {b}.{column}")
            continue
        kind = flavour if flavour != "mixed" else rnd.choice(["equi", "theta", "residual"])
        for _ in range(rnd.choice([1, 1, 1, 2])):
            conditions.append(_draw_pair(rnd, a, b, types, kind))
    for _ in range(rnd.choice([0, 0, 0, 1, 2])):
        conditions.append(_draw_filter(rnd, rnd.choice(aliases), types))
    if len(aliases) > 2 and rnd.random() < 0.3:
        a, b, c = rnd.sample(aliases, 3)
        conditions.append(f"{a}.y + {b}.y > {c}.y - {rnd.randint(0, 30)}")
    rnd.shuffle(conditions)
    return conditions, everywhere


def _draw_pair(rnd: random.Random, a: str, b: str, types: dict[str, dict[str, pa.DataType]], kind: str) -> str:
    shared = [c for c in types[a] if c in types[b]]
    numbers = [c for c in NUMBERS if c in types[a]], [c for c in NUMBERS if c in types[b]]
    if kind == "equi":
        column = rnd.choice(shared)
        options = [f"{a}.{column} = {b}.{column}", f"{b}.{column} = {a}.{column}"]
        options.append(f"{a}.{rnd.choice(numbers[0])} = {b}.{rnd.choice(numbers[1])}")
        options.append(f"{a}.k + 1 = {b}.k")
        return rnd.choice(options)
    if kind == "residual":
        return rnd.choice(
            [
                f"({a}.y + {b}.y) % 3 = 0",
                f"{a}.k = {b}.k OR {a}.y < {b}.y",
                f"{a}.s LIKE {b}.s",
                f"abs({a}.y - {b}.y) <= 5",
                f"CASE WHEN {a}.y > 0 THEN {b}.y ELSE {b}.k END > {a}.k",
                f"coalesce({a}.s, {b}.s) <> 'a'",
            ]
        )
    op = rnd.choice(["<", "<=", ">", ">=", "<>"])
    column = rnd.choice(shared)
    return rnd.choice(
        [
            f"{a}.{column} {op} {b}.{column}",
            f"{a}.{rnd.choice(numbers[0])} {op} {b}.{rnd.choice(numbers[1])}",
            f"{a}.y BETWEEN {b}.y - 4 AND {b}.y + 4",
            f"NOT ({a}.y {op} {b}.y + 2)",
        ]
    )


def _draw_filter(rnd: random.Random, a: str, types: dict[str, dict[str, pa.DataType]]) -> str:
    options = [
        f"{a}.y > {rnd.randint(-10, 10)}",
        f"{a}.k IN (0, 1, 3)",
        f"{a}.s IS NOT NULL",
        f"{a}.s LIKE 'a%'",
        f"NOT ({a}.k = 1 OR {a}.y < 0)",
        f"{a}.y BETWEEN -5 AND 15",
    ]
    if "x" in types[a]:
        options.append(f"{a}.x < 1.5")
    if "f" in types[a]:
        options.append(f"{a}.f")
    if "d" in types[a]:
        options.append(f"{a}.d >= 0.5")
    if "e" in types[a]:
        options.append(f"{a}.e >= DATE '2024-01-02'")
    return rnd.choice(options)


def _draw_outputs(
    rnd: random.Random, aliases: list[str], types: dict[str, dict[str, pa.DataType]]
) -> list[tuple[str, str]]:
    outputs = []
    for alias in aliases:
        for column in rnd.sample(["ts", *types[alias]], rnd.choice([0, 1, 1, 2])):
            outputs.append(f"{alias}.{column}")
    if rnd.random() < 0.4 or not outputs:
        a, b = rnd.choice(aliases), rnd.choice(aliases)
        outputs.append(rnd.choice([f"{a}.y + {b}.k * 2", f"upper({a}.s)", f"{a}.y / 4", f"coalesce({a}.y, {b}.y, 7)"]))
    return [(f"o{i}", text) for i, text in enumerate(outputs)]


def draw_tree(rnd: random.Random, aliases: list[str]) -> str:
    parts = list(aliases)
    rnd.shuffle(parts)
    while len(parts) > 1:
        i = rnd.randrange(len(parts) - 1)
        parts[i : i + 2] = [f"({parts[i]} {parts[i + 1]})"]
    return parts[0]
