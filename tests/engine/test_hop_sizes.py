"""What nodes say of the size of their relations is true, through modes, migrations and rebuilt states."""

import random
from collections import Counter

import pyarrow as pa
import pytest
from engine.test_hop_recovery import draw_asked, draw_requests, plan_of, streams_of

from midstream.engine.planning.sizes import filled
from midstream.engine.results.schema import output_schema
from midstream.local.loop import Loop
from midstream.local.sinks import TableSink
from midstream.model.statistics import Size
from midstream.operators.hopping.build_execution import HopExecution, _Relations
from midstream.operators.hopping.node import OperatorStatistics
from midstream.plan.algebra import Distinct, Except, Group
from oracle.hop_generate import KINDS, draw_case
from seeds import seeds


@pytest.mark.parametrize("seed", seeds(0, 200, quick=4))
def test_sizes_that_are_known_are_those_of_the_relations(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rnd = random.Random(60_000 + seed)
    case = draw_case(rnd, KINDS[seed % len(KINDS)])
    plan = plan_of(case.sql, case.streams, draw_asked(rnd, case.hop_us))
    loop = Loop(plan, streams_of(case.streams), case.batch_us, 1, draw_requests(rnd, case))
    running = loop.start(TableSink(output_schema(plan)))
    compared = Counter[str]()

    def compare(execution: HopExecution) -> None:
        """Right after a hop, compare what nodes say with their relations computed from the windows."""
        assert execution.last_us is not None
        relations = _Relations(execution.last_us)
        for path, node in execution.tree.nodes.items():
            given, size = node.account.lately(node.mode), len(relations.of(node))
            if given is None:
                continue
            compared[node.mode] += 1
            assert given.complete in (None, size), (case, node.mode)
            if node.reads_delta and isinstance(execution.tree.rels[path], Except | Distinct | Group):
                assert given.kept == size, (case, node.mode)

    answer = HopExecution.answer

    def answer_and_compare(execution: HopExecution, hop_us: int) -> pa.RecordBatch:
        found = answer(execution, hop_us)
        compare(execution)
        return found

    monkeypatch.setattr(HopExecution, "answer", answer_and_compare)
    while running.step():
        pass
    assert compared or len(case.hops) < 8


def test_what_is_not_seen_is_filled_up_in_proportion() -> None:
    expected = Size(100.0, 10.0, 2.0, 8.0)
    by_deltas = filled(OperatorStatistics(8, None, 999.0, 40.0, 8.0, None), expected, 5)
    assert by_deltas.complete == pytest.approx(400, rel=0.02)
    assert by_deltas.matured == pytest.approx(32, rel=0.02)
    assert (by_deltas.positive, by_deltas.negative, by_deltas.hop_us) == (40.0, 8.0, 5)
    no_ends = Size(100.0, 10.0, 10.0, 0.0)
    assert filled(OperatorStatistics(8, None, 70.0, 40.0, 40.0, None), no_ends, 5).complete == 70.0, (
        "all of them are known"
    )
    nothing = filled(OperatorStatistics(8, None, 0.0, 0.0, 0.0, None), expected, 5)
    assert nothing.complete < 3, "ten were expected at every hop"
    rare = filled(OperatorStatistics(2, None, 0.0, 0.0, 0.0, None), Size(4.0, 0.02, 0.0, 0.02), 5)
    assert rare.complete > 3, "one in fifty hops: that there was none says nothing"
