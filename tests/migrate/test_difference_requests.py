"""Which migrations a difference takes: another order of the same chain, just in time."""

import pyarrow as pa
import pytest

import midstream as ms
from benchmarks.direct import DirectRun
from midstream.local.loop import Loop
from midstream.migrate.record import FINISHED, SUPERSEDED
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import PlanError
from midstream.model.time import FOREVER
from midstream.operators.build import build
from midstream.plan.plan import Plan
from oracle.test_moved_states import rows_between

ROWS = pa.table({"ts": [0, 1, 2, 3, 4, 5], "k": [1, 2, 3, 1, 2, 3]})
SQL = " EXCEPT ".join(f"SELECT k FROM {name} [RANGE 10 MICROSECONDS]" for name in "abcd")


def plan_of(sql: str = SQL) -> Plan:
    engine = ms.Engine()
    for name in "abcd":
        engine.stream(name, ROWS, time="ts")
    return engine.query(sql).plan


@pytest.mark.parametrize("strategy", ["moving-state", "parallel-track", "hybrid"])
def test_other_strategies_are_refused(strategy: str) -> None:
    with pytest.raises(PlanError) as error:
        MigrationRequest("(((a c) b) d)", strategy).checked(plan_of())
    assert str(error.value) == (
        f"{strategy} is for joins: a difference would answer from half-filled states; use just-in-time"
    )


def test_the_strategy_is_chosen() -> None:
    assert MigrationRequest("(((a c) b) d)").checked(plan_of()).strategy == "just-in-time"
    assert MigrationRequest("(((a b) c) d)").checked(plan_of()).strategy == "just-in-time"


@pytest.mark.parametrize("plan", ["((a c) (b d))", "(((b a) c) d)", "(((a c) b) e)"])
def test_a_plan_that_is_no_order_of_the_chain_is_refused(plan: str) -> None:
    with pytest.raises(PlanError, match=r"is no order of this difference|is no alias of the query"):
        MigrationRequest(plan).checked(plan_of())
    with pytest.raises(PlanError, match="is for joins"):
        MigrationRequest("(((a c) b) d)", join="hash").checked(plan_of())


@pytest.mark.parametrize("framework", ["cacq", "stairs"])
def test_eddies_are_refused(framework: str) -> None:
    with pytest.raises(
        PlanError, match=f'framework = "{framework}" is for joins; a difference runs with framework = "tree"'
    ):
        build(plan_of(), framework=framework)
    with pytest.raises(PlanError, match="is for joins"):
        Loop(plan_of(), (), 1, 1, framework=framework)


class Streams:
    """Rows of a under other streams that have none, so that only a's own coming and going completes levels."""

    def __init__(self, times: list[int]) -> None:
        empty = ROWS.slice(0, 0)
        rows = pa.table({"ts": times, "k": [t % 3 for t in times]})
        self.streams = {"a": rows, "b": empty, "c": empty, "d": empty}


def test_the_record_tells_what_was_there_and_what_was_learned() -> None:
    """As in section 4.7 of the paper: ((AD)B) is new, and only the top of the chain was there."""
    requests = [MigrationRequest("(((a d) b) c)", at_us=5, identity="1")]
    runtime = DirectRun(plan_of(), 1, requests)
    phases = []
    for rows in rows_between(Streams([0, 1, 2, 5, 6, 8, 20, 21]), runtime, [5, 6, 7, 9, 21, FOREVER]):
        list(runtime.on_rows(rows))
        phases.append(runtime.phase)
    (record,) = runtime.records()
    assert (record.states_matched, record.states_incomplete, record.states_completed) == (1, 2, 2)
    assert (record.state, record.position_us, record.ended_us) == (FINISHED, 5, 20)
    assert phases == ["steady", *["migrating (just-in-time)"] * 3, "steady", "steady"]


def test_migrations_overlap() -> None:
    requests = [
        MigrationRequest("(((a d) b) c)", at_us=3, identity="1"),
        MigrationRequest("(((a c) b) d)", "just-in-time", at_us=4, identity="2"),
        MigrationRequest("(((a c) d) b)", at_us=5, identity="3"),
    ]
    runtime = DirectRun(plan_of(), 1, requests)
    for rows in rows_between(Streams([0, 1, 2, 5, 30, 31]), runtime, [FOREVER]):
        list(runtime.on_rows(rows))
    list(runtime.finish())
    first, second, third = runtime.records()
    assert (first.state, second.state, third.state) == (SUPERSEDED, SUPERSEDED, FINISHED)
    assert (third.states_matched, third.states_incomplete) == (2, 2), "(a c) was there, but incomplete"
    assert str(runtime.plan) == "(((a c) d) b)"
