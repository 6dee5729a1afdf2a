"""More text than one Arrow array of strings can hold: in the windows, in an answer, in what is restored.

The bound is lowered, so that a few hundred bytes are too many.
"""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from engine.test_hop_recovery import draw_asked, in_process, plan_of, rows_of, run_case

import midstream as ms
from midstream.engine.rows.rows import Rows, in_order
from midstream.local.sources import recorded_table
from midstream.operators.aggregate import stage
from midstream.operators.expression import arrays
from midstream.operators.expression.evaluate import evaluate, truth
from midstream.operators.expression.scalar import SCALAR
from midstream.plan.coerce import literal
from midstream.plan.expr import Column
from midstream.plan.functions import resolve
from oracle.generate import draw_case as draw_sliding_case
from oracle.hop_generate import draw_case
from oracle.hop_recompute import recompute
from oracle.recompute import recompute as recompute_sliding
from oracle.test_hopping import check, draw_batch, draw_modes, parsed
from oracle.test_random_queries import MOST_RESULTS
from oracle.test_random_queries import check as check_sliding
from seeds import seeds


@pytest.mark.parametrize("seed", seeds(0, 100, quick=2))
def test_answers_with_long_texts_leave_in_pieces(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MOST_TEXT", 6)
    rnd = random.Random(4_800_000 + seed)
    case = draw_batch(rnd, draw_case(rnd))
    modes = ",".join(draw_modes(rnd, parsed(case).root, case.emit))
    check(case, recompute(case), tmp_path, modes, rnd.choice(["window", "tuple"]), "as-written")


@pytest.mark.parametrize("seed", seeds(0, 60, quick=2))
def test_long_texts_are_restored(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rnd = random.Random(4_900_000 + seed)
    case = draw_case(rnd)
    plan = plan_of(case.sql, case.streams, draw_asked(rnd, case.hop_us))
    expected, _ = in_process(plan, case.streams, case.batch_us, case.buckets, [])
    monkeypatch.setattr(arrays, "MOST_TEXT", 6)
    cluster = run_case(case, plan, rnd, tmp_path, [], 0.5)
    assert rows_of(cluster.output()) == rows_of(expected), case


def test_pieces_of_an_answer_are_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MOST_TEXT", 100)
    texts = [f"{i:04} {'x' * (i % 40)}" for i in range(300)]
    engine = ms.Engine()
    engine.stream("a", pa.table({"ts": np.arange(300) * 40_000, "s": texts}), time="ts")
    pieces: list[pa.RecordBatch] = []
    query = engine.query("SELECT upper(s) AS s FROM a [RANGE 1 HOUR] WHERE s LIKE '0%' HOP BY 10 SECONDS")
    query.start(pieces.append)
    assert [s for p in pieces for s in p.column("s").to_pylist()] == sorted(t.upper() for t in texts[:250])
    assert len(pieces) > 30
    assert all(p.column("s").nbytes < 600 for p in pieces)


def test_what_must_be_in_one_array_and_is_too_long_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MOST_TEXT", 100)
    engine = ms.Engine()
    engine.stream("a", pa.table({"ts": np.arange(300) * 40_000, "s": [f"{i:04}" for i in range(300)]}), time="ts")
    engine.aggregate("longest", lambda values: max(values.to_pylist(), key=len), "string")
    query = engine.query("SELECT longest(s) AS s FROM a [RANGE 1 HOUR] HOP BY 10 SECONDS")
    with pytest.raises(ms.MidstreamError, match="more text than"):
        query.start()


def test_rows_with_long_texts_are_put_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MOST_TEXT", 10)
    times = np.arange(3, dtype=np.int64)
    parts = [Rows(times + k, times, {"s": pa.array(["aaaa", None, f"b{k}"])}) for k in (1, 0)]
    assert in_order(parts).columns["s"].to_pylist() == ["aaaa", "aaaa", None, None, "b0", "b1"]


def test_recorded_texts_that_are_longer_than_a_column_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MOST_TEXT", 100)
    texts = [None if n % 7 == 3 else "x" * (n % 30) for n in range(40)]
    table = pa.table({"ts": range(40), "s": pa.array(texts, pa.large_string())})
    chunks = list(recorded_table("a", table, "ts").chunks(["s"]))
    assert max(int(pc.sum(pc.binary_length(c.columns["s"])).as_py() or 0) for c in chunks) <= 100
    assert [text for c in chunks for text in c.columns["s"].to_pylist()] == texts
    assert [n for c in chunks for n in c.offsets] == list(range(40))


@pytest.mark.parametrize("seed", seeds(0, 100, quick=3))
def test_sliding_queries_with_long_texts_equal_recomputing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rnd = random.Random(5_000_000 + seed)
    case = draw_sliding_case(rnd, most_streams=3)
    expected = recompute_sliding(case)
    while not 0 < expected.num_rows < MOST_RESULTS:
        case = draw_sliding_case(rnd, most_streams=3)
        expected = recompute_sliding(case)
    monkeypatch.setattr(arrays, "MOST_TEXT", 160)
    check_sliding(case, expected, [("60 s", 1), ("1 s", 2)])


@pytest.mark.parametrize("asked", ["MAX(s)", "COUNT(DISTINCT s)", "MIN(upper(s)) || '!'"])
@pytest.mark.parametrize("fold", [1, 1 << 18])
def test_windows_hold_long_texts(asked: str, fold: int, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{i % 90:04} {'x' * (i % 40)}" for i in range(300)]
    engine = ms.Engine()
    engine.stream("a", pa.table({"ts": np.arange(300) * 40_000, "s": texts}), time="ts")
    query = engine.query(f"SELECT {asked} AS y, COUNT(*) AS n FROM a [RANGE 8 SECONDS SLIDE 4 SECONDS]")
    expected = query.start().table()
    monkeypatch.setattr(arrays, "MOST_TEXT", 200)
    monkeypatch.setattr(stage, "FOLD_ROWS", fold)
    assert query.start().table() == expected
    assert expected.num_rows == 2


def test_results_of_several_buckets_with_long_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [
        pa.record_batch({"s": ["a" * 7, None, "c" * 5], "n": [0, 1, 2]}),
        pa.record_batch({"s": ["d", "e"], "n": [3, 4]}),
    ]
    places = np.array([4, 2, 0, 1, 3])
    monkeypatch.setattr(arrays, "MOST_TEXT", 8)
    pieces = arrays.taken(batches, places)
    assert [p.num_rows for p in pieces] == [2, 3]
    assert [n for p in pieces for n in p.column("n").to_pylist()] == places.tolist()
    assert [s for p in pieces for s in p.column("s").to_pylist()] == ["e", "c" * 5, "a" * 7, None, "d"]
    assert {p.schema for p in pieces} == {batches[0].schema}


def test_texts_that_grow_are_computed_for_fewer_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ms.Engine()
    engine.stream("a", pa.table({"ts": np.arange(300) * 40_000, "s": [f"{i:04}" for i in range(300)]}), time="ts")
    padded = "RPAD(s, 40, 'x')"
    small = f"SELECT LENGTH({padded}) AS n, s FROM a WHERE {padded} LIKE '%8xx%'"
    hops = f"SELECT {padded} AS t FROM a [RANGE 1 HOUR] HOP BY 10 SECONDS"
    expected = [engine.query(sql).start().table().to_pylist() for sql in (small, hops)]
    monkeypatch.setattr(arrays, "MOST_TEXT", 100)
    assert [engine.query(sql).start().table().to_pylist() for sql in (small, hops)] == expected
    with pytest.raises(ms.MidstreamError, match="more text than"):
        engine.query(f"SELECT {padded} AS t FROM a").start()


def test_rows_are_halved_until_their_texts_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    join = SCALAR["||"]

    def joined(t: pa.DataType, rows: int, *args: Any) -> Any:
        if rows > 3:
            raise pa.ArrowCapacityError("array cannot contain more than 2147483646 bytes")
        return join(t, rows, *args)

    monkeypatch.setitem(SCALAR, "||", joined)
    text = Column("r", "s", pa.string())
    doubled = resolve("||", [text, text])
    values = pa.array([None, *"abcdefghij"])
    assert evaluate(doubled, 11, lambda _: values).to_pylist() == [None, *(c + c for c in "abcdefghij")]
    assert truth(resolve("=", [doubled, literal("bb")]), 11, lambda _: values).tolist() == [k == 2 for k in range(11)]
    monkeypatch.setitem(SCALAR, "||", lambda *_: joined(pa.string(), 9))
    with pytest.raises(ms.MidstreamError, match="longer than 2 GiB"):
        evaluate(doubled, 11, lambda _: values)
