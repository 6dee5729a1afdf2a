"""Groups of hopping queries: those that are kept give the same as those that are computed anew, step by step."""

import decimal
import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from midstream.operators.aggregate.functions import AggregateSpec
from midstream.operators.hopping import ends, held_values
from midstream.operators.hopping.coding import Coding
from midstream.operators.hopping.group import GroupBy, GroupSpec, GroupTuples
from midstream.operators.hopping.kept_groups import KeptGroups
from midstream.operators.hopping.rows import Layout, ProjectRows
from midstream.operators.hopping.tuples import FOREVER, Tuples
from midstream.plan.aggregates import Aggregate, aggregate
from midstream.plan.expr import Column
from oracle.float_sums import summed
from seeds import seeds

COLUMNS = (
    Column("r", "k", pa.int64()),
    Column("r", "v", pa.int64()),
    Column("r", "m", pa.decimal128(38, 2)),
    Column("r", "s", pa.string()),
    Column("r", "x", pa.float64()),
    Column("r", "w", pa.int32()),
)
TYPES = [c.type for c in COLUMNS]
ALL = (
    ("count", ""), ("sum", "v"), ("avg", "v"), ("count", "v"), ("sum", "m"), ("count", "s"), ("count", "x"),
    ("sum", "x"), ("avg", "x"),
)  # fmt: skip
ONCE = (("min", "v"), ("max", "s"), ("min", "m"), ("max", "x"), ("count", "s", True), ("sum", "x", True),
        ("sum", "v", True), ("stddev", "v", True), ("median", "w", True))  # fmt: skip
FLOATS = (0.5, -0.5, -0.0, 1e16, -1e16, 1.0, 1e300, -1e300, 5e-324)
HUGE = 2**63 - 1
LARGE = "9" * 36 + ".99"

Row = tuple[Any, ...]


def asked_for(function: str, name: str, distinct: bool = False) -> Aggregate:
    """Return an aggregate of a column, or of nothing."""
    column = next((c for c in COLUMNS if c.name == name), None)
    return aggregate(function, column, distinct)


def spec_of(asked: Sequence[tuple[Any, ...]], coding: Coding, keys: int = 1) -> GroupSpec:
    """Return a group-by of the first columns with aggregates of others."""
    made = [asked_for(*each) for each in asked]
    arguments = list(dict.fromkeys(a.argument for a in made if a.argument is not None))
    exprs = [*COLUMNS[:keys], *arguments]
    return GroupSpec(
        ProjectRows(exprs, Layout(COLUMNS), coding),
        keys,
        tuple(AggregateSpec(a.function, None if a.argument is None else "", a.type, a.distinct) for a in made),
        tuple(-1 if a.argument is None else keys + arguments.index(a.argument) for a in made),
        tuple(e.type for e in exprs),
    )


def tuples_of(coding: Coding, rows: Sequence[Row], until: Sequence[int], signs: Sequence[int] | None) -> Tuples:
    codes = [coding.encode(pa.array([r[i] for r in rows], t)) for i, t in enumerate(TYPES)]
    matrix = np.column_stack(codes) if rows else np.empty((0, len(TYPES)), np.int64)
    given = None if signs is None else np.array(signs, np.int64)
    return Tuples(np.ascontiguousarray(matrix), np.array(until, np.int64), given)


def draw_row(rnd: random.Random, keys: int) -> Row:
    values = (
        rnd.randrange(keys),
        rnd.choice([rnd.randint(-3, 9), HUGE - rnd.randrange(3), -HUGE + rnd.randrange(3), 2**62, -(2**62)]),
        Decimal(rnd.choice(["0.25", "-7.00", LARGE, f"-{LARGE}", "4" * 36 + ".44"])),
        rnd.choice(["a", "b"]),
        rnd.choice([float("nan"), float("inf"), float("-inf")]) if rnd.random() < 0.05 else rnd.choice(FLOATS),
        rnd.randint(-5, 5),
    )
    return tuple(None if rnd.random() < 0.15 else v for v in values)


def told(rows: Sequence[Row], asked: Sequence[tuple[str, str]]) -> Row:
    """Compute aggregates with Python's integers, decimals and fractions."""
    names = [c.name for c in COLUMNS]
    out: list[Any] = []
    for function, name in asked:
        values = [r[names.index(name)] for r in rows if r[names.index(name)] is not None] if name else list(rows)
        if function == "count":
            out.append(len(values))
        elif not values:
            out.append(None)
        elif name == "x":
            out.append(shown(summed(values) / (len(values) if function == "avg" else 1)))
        elif function == "avg":
            out.append(float(sum(values)) / len(values))
        elif isinstance(values[0], Decimal):
            with decimal.localcontext(prec=80):
                total = sum(values)
                out.append(total if abs(total) <= Decimal(LARGE) else None)
        else:
            out.append(sum(values) if -(2**63) < sum(values) < 2**63 else None)  # the least integer is NULL's code
    return tuple(out)


def values_of(coding: Coding, spec: GroupSpec, given: Tuples) -> list[Row]:
    types = [*spec.types[: spec.keys], *(a.type for a in spec.aggregates)]
    columns = [coding.decode(np.ascontiguousarray(given.rows[:, i]), t).to_pylist() for i, t in enumerate(types)]
    return list(zip(*([shown(v) for v in column] for column in columns), strict=True))


def shown(value: Any) -> Any:
    """Return a value that equals itself."""
    return "nan" if value != value else value


@pytest.mark.parametrize("keys", [0, 1])
@pytest.mark.parametrize("seed", seeds(0, 12, quick=2))
def test_kept_groups_equal_groups_computed_anew(seed: int, keys: int) -> None:
    rnd = random.Random(100 * seed + keys)
    asked = rnd.sample(ALL, rnd.randint(1, len(ALL)))
    coding = Coding()
    spec = spec_of(asked, coding, keys)
    assert all(asked_for(*each).exact for each in asked)
    cores: list[GroupBy] = [KeptGroups(spec, coding), GroupTuples(spec, coding)]
    given = [Counter[Row](), Counter[Row]()]
    different = rnd.choice([2, 5, 3000])
    many = 400 if different == 3000 else 15
    ends = rnd.choice([(1, 4), (3, 3), (1, 40)])
    held: list[tuple[Row, int]] = []
    now = 0
    for _ in range(25):
        now += rnd.choice([0, 1, 1, 2, 30])  # 0: working by tuple
        held = [h for h in held if h[1] >= now]
        going = [held.pop(rnd.randrange(len(held))) for _ in range(rnd.randrange(len(held) + 1) // rnd.choice([1, 5]))]
        coming = [
            (draw_row(rnd, different), FOREVER if rnd.random() < 0.2 else now + rnd.randint(*ends))
            for _ in range(rnd.randrange(many))
        ]
        if rnd.random() < 0.2:
            coming += rnd.sample(going, len(going) // 2)  # back at once
        events = [(e, -1) for e in going] + [(e, 1) for e in coming]
        rnd.shuffle(events)
        delta = tuples_of(coding, [e[0] for e, _ in events], [e[1] for e, _ in events], [sign for _, sign in events])
        held += coming
        groups: dict[Row, list[Row]] = {} if keys else {(): []}
        for row, _ in held:
            groups.setdefault(row[:keys], []).append(row)
        expected = Counter({(*key, *told(rows, asked)): 1 for key, rows in groups.items()})
        for core, so_far in zip(cores, given, strict=True):
            out = core.delta(now, [delta])
            assert out.signs is not None
            change = list(zip(values_of(coding, spec, out), out.signs.tolist(), strict=True))
            assert all(n == 1 for n in Counter(change).values()), "a row leaves once"
            assert not {r for r, sign in change if sign > 0} & {r for r, sign in change if sign < 0}, "no idle change"
            for row, sign in change:
                so_far[row] += sign
            assert +so_far == expected, asked
            assert all(n >= 0 for n in so_far.values())
        whole = tuples_of(coding, [h[0] for h in held], [h[1] for h in held], None)
        assert Counter(values_of(coding, spec, cores[0].complete(now, [whole]))) == expected


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("keys", [0, 1])
@pytest.mark.parametrize("seed", seeds(0, 40, quick=2))
def test_values_that_are_held_give_the_same_as_all_tuples(
    seed: int, keys: int, lasting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Least, greatest and different values beside sums, or alone; tuples of a lasting input are never taken back."""
    rnd = random.Random(10_000 + 100 * seed + 10 * keys + lasting)
    monkeypatch.setattr(held_values, "FOLD_ROWS", rnd.choice([1, 5, 40]))
    monkeypatch.setattr(ends, "SAMPLE", np.arange(rnd.choice([1, 3, 2048])))
    monkeypatch.setattr(ends, "FOLD_ENDS", rnd.choice([1, 10, 40]))
    asked = [*rnd.sample(ONCE, rnd.randint(1, 4)), *rnd.sample(ALL, rnd.choice([0, 0, 1, 3]))]
    coding = Coding()
    spec = spec_of(asked, coding, keys)
    kept, anew = KeptGroups(spec, coding, lasting), GroupTuples(spec, coding)
    different = rnd.choice([1, 2, 5, 3000])
    many = 400 if different == 3000 else rnd.choice([15, 60])
    ends_in = rnd.choice([(1, 4), (3, 3), (1, 40)])
    held: list[tuple[Row, int]] = []
    now = 0
    for _ in range(25):
        now += rnd.choice([0, 1, 1, 2, 30])
        held = [h for h in held if h[1] >= now]
        some = 0 if lasting else rnd.randrange(len(held) + 1) // rnd.choice([1, 5])
        going = [held.pop(rnd.randrange(len(held))) for _ in range(some)]
        coming = [(draw_row(rnd, different), now + rnd.randint(*ends_in)) for _ in range(rnd.randrange(many))]
        if going and rnd.random() < 0.2:
            coming += rnd.sample(going, len(going) // 2)
        events = [(e, -1) for e in going] + [(e, 1) for e in coming]
        rnd.shuffle(events)
        held += coming
        cut = rnd.randrange(len(events) + 1)
        pieces = [
            tuples_of(coding, [e[0] for e, _ in part], [e[1] for e, _ in part], [sign for _, sign in part])
            for part in (events[:cut], events[cut:])
        ]
        found = [core.delta(now, pieces) for core in (kept, anew)]
        changes = [Counter(zip(map(tuple, f.rows.tolist()), f.signs.tolist(), strict=True)) for f in found]
        assert changes[0] == changes[1], asked
        whole = tuples_of(coding, [h[0] for h in held], [h[1] for h in held], None)
        cut = rnd.randrange(len(held) + 1)
        parts = [whole.where(np.arange(cut)), whole.where(np.arange(cut, len(held)))]
        complete = [core.complete(now, parts) for core in (kept, anew)]
        assert sorted(map(tuple, complete[0].rows.tolist())) == sorted(map(tuple, complete[1].rows.tolist())), asked


def test_groups_without_tuples_are_forgotten() -> None:
    coding = Coding()
    core = KeptGroups(spec_of([("sum", "v"), ("count", "")], coding), coding)
    before = 0
    for step in range(40):
        rows = [(1000 * step + i, i, None, "a", 0.5, 1) for i in range(1000)]
        core.delta(step, [tuples_of(coding, rows, [step] * 1000, [1] * 1000)])
        assert core.tuples == 2000, "a group and an end for each"
        before = before or core.nbytes
    assert core.nbytes < 6 * before
    gone = core.delta(1000, [tuples_of(coding, [], [], [])])
    assert Counter(np.asarray(gone.signs).tolist()) == {-1: 1000}
    assert core.tuples == 0


def test_tuples_of_a_group_that_end_together_are_one_entry() -> None:
    """Also where a look at some of them finds few that do."""
    coding, count = Coding(), 1 << 15
    core = KeptGroups(spec_of([("sum", "v"), ("max", "v"), ("sum", "v", True)], coding), coding, lasting=True)
    rows = [(i % 5, i % 7, None, "a", 0.5, 1) for i in range(count)]
    core.delta(0, [tuples_of(coding, rows, [1 + i % 1000 for i in range(count)], [1] * count)])
    assert core.tuples <= 5 + 1000 + 1000 + 2 * 35


def test_tuples_that_end_together_are_one_entry_whatever_piece_they_come_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a join bring the same groups and ends again: entries are as many as these, not as pieces."""
    monkeypatch.setattr(ends, "FOLD_ENDS", 3000)
    coding = Coding()
    core = KeptGroups(spec_of([("sum", "v"), ("avg", "x"), ("sum", "m")], coding), coding, lasting=True)
    rows = [(i % 5, i % 7, Decimal("0.25"), "a", FLOATS[i % 9], 1) for i in range(1000)]
    piece = tuples_of(coding, rows, [1 + i % 100 for i in range(1000)], [1] * 1000)
    core.delta(0, [piece] * 40)
    assert core.tuples <= 5 + 3000
    gone = core.delta(1000, [tuples_of(coding, [], [], [])])
    assert Counter(np.asarray(gone.signs).tolist()) == {-1: 5}
    assert core.tuples == 0


def test_values_of_groups_that_are_forgotten_are_forgotten() -> None:
    """Else they would be in no group, the equal ones side by side, and all that is looked up there goes past them."""
    coding = Coding()
    core = KeptGroups(spec_of([("count", "v"), ("sum", "v", True)], coding), coding, lasting=True)
    (held,) = (v for v in core._values if isinstance(v, held_values.DifferentValues))
    for step in range(60):
        rows = [(1000 * step + i, 5 if i % 2 else None, None, "a", 0.5, 1) for i in range(1000)]
        core.delta(step, [tuples_of(coding, rows, [step] * 1000, [1] * 1000)])
        table = held._values._values
        assert (table.rows[: len(table), 0] >= 0).all()


def test_a_tuple_that_came_and_went_holds_its_group_until_its_end() -> None:
    """Its two ends are noted by the number of the group, which is not another's meanwhile."""
    coding = Coding()
    core = KeptGroups(spec_of([("sum", "v")], coding), coding)
    row = (7, 5, None, "a", 0.5, 1)
    core.delta(0, [tuples_of(coding, [row], [50], [1])])
    assert len(core.delta(1, [tuples_of(coding, [row], [50], [-1])])) == 1
    others = [(1000 + i, 1, None, "a", 0.5, 1) for i in range(3000)]
    assert len(core.delta(2, [tuples_of(coding, others, [FOREVER] * 3000, [1] * 3000)])) == 3000
    assert len(core.delta(60, [tuples_of(coding, [], [], [])])) == 0
    assert len(core.delta(61, [tuples_of(coding, [row], [70], [1])])) == 1


@pytest.mark.parametrize(
    ("function", "name", "distinct"),
    [
        ("min", "v", False),
        ("max", "s", False),
        ("median", "v", False),
        ("stddev", "v", False),
        ("stddev", "x", False),
        ("sum", "v", True),
        ("sum", "x", True),
        ("count", "s", True),
    ],
)
def test_other_groups_are_computed_anew(function: str, name: str, distinct: bool) -> None:
    assert not asked_for(function, name, distinct).exact
