"""Joins over sites in buckets that send each other mail: results are those of one machine, whatever is run again."""

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from engine.cluster import Cluster
from engine.live_host import HostedRun, two_streams

import midstream as ms
from midstream.app.status import facts
from midstream.engine.bucket.store import Store
from midstream.engine.rows.packed import Packed
from midstream.engine.rows.rows import Rows, in_order
from midstream.engine.run.contract import Framework
from midstream.local.sites import SITES, DeclaredSites, place_plan
from midstream.local.sources import recorded_table
from midstream.model.errors import MidstreamError
from midstream.plan.plan import Plan
from midstream.sites.declaration import UPDATES, Declared
from oracle.generate import Case
from oracle.migrations import plan_of
from oracle.recompute import plain
from oracle.test_sites import draw_small_case
from seeds import seeds

PLACES = ["tokyo", "london", "paris"]


def draw_sites(rnd: random.Random, case: Case) -> DeclaredSites:
    """Draw where streams arrive, and where results go."""
    at = {name: rnd.choice(PLACES) for name in case.streams}
    update = rnd.choice(UPDATES)
    return DeclaredSites(at, rnd.choice([None, *PLACES, "nowhere else"]), update, rnd.choice([0.0, 0.1, 1.0]))


class SitesCluster(Cluster):
    """A cluster whose buckets are sites, over recorded streams."""

    def __init__(self, case: Case, plan: Plan, declared: Declared, folder: Path, rnd: random.Random, crashes: float):
        labels = tuple(range(3, 3 + (plan.partitioning.buckets or 1)))
        super().__init__([plan], folder, labels, rnd, crashes)
        framework = Framework(SITES, sites=declared)
        self.spec = replace(self.spec, run=replace(self.spec.run, framework=framework, planner=None))
        self.rows: dict[int, Rows] = {}
        for rank, source in enumerate(plan.query.sources):
            stream = recorded_table(source.stream.name, case.streams[source.stream.name], "ts")
            parts = list(stream.chunks(plan.query.columns_of(source.alias)))
            self.rows[rank] = in_order(parts) if parts else stream.empty(plan.query.columns_of(source.alias))

    def run(self, batch_us: int) -> None:
        """Read everything, and go on until no mail waits."""
        ends = sorted({(int(t) // batch_us + 1) * batch_us for rows in self.rows.values() for t in rows.times})
        first_us = -(2**62)
        for end_us in ends:
            self.batch(lambda place, a=first_us, b=end_us: self._packed(place, a, b))
            first_us = end_us
        while self.mail:
            self.batch(lambda place: self._packed(place, ends[-1], ends[-1]))

    def _packed(self, place: int, first_us: int, end_us: int) -> Packed:
        sources = self.plan.query.sources
        packed = Packed(high={s.position: end_us for s in sources}, clock_us=end_us - 1)
        for rank, rows in self.rows.items():
            start, stop = rows.times.searchsorted([first_us, end_us])
            self.place(packed, place, 1, rank, rows.between(int(start), int(stop)))
        return packed


@pytest.mark.parametrize("seed", seeds(0, 64, quick=2))
def test_sites_equal_recomputing(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(seed)
    case, expected = draw_small_case(rnd, 2, 5)
    plan, declared = place_plan(plan_of(case), draw_sites(rnd, case))
    crashes = rnd.choice([0.0, 0.3])
    cluster = SitesCluster(case, plan, declared, tmp_path, rnd, crashes)
    cluster.run(rnd.choice([1, 5, 50]) * 1_000_000)
    assert crashes or not cluster.rebuilt, "windows are found again"
    schema = plan.query.schema.append(pa.field("_time", pa.int64()))
    assert plain(cluster.table(schema), schema) == plain(expected, schema), f"{case.sql} | {plan.partitioning}"


JOIN = "SELECT a.v AS x, b.v AS y FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k"
AT = DeclaredSites({"a": "tokyo", "b": "london"}, "paris", "centralized", 0.0)


def table_of(rnd: random.Random, second: int) -> pa.Table:
    times = sorted(rnd.sample(range(second * 1_000_000, (second + 1) * 1_000_000), 40))
    columns = {"ts": times, "k": [rnd.randrange(6) for _ in times], "v": times, "s": ["x"] * 40}
    return pa.table(columns, schema=two_streams()[0].columns)


def test_a_live_run_says_what_its_sites_do(tmp_path: Path) -> None:
    rnd, stores = random.Random(5), dict[int, Store]()
    tables = [{name: table_of(rnd, second) for name in "ab"} for second in range(8)]
    for half in (tables[:4], tables[4:]):  # stopped between, and gone on with
        run = HostedRun(JOIN, two_streams(), tmp_path, stores, sites=AT)
        for given in half:
            run.tick(given)
        run.ask_to_end(drain=half is not tables[:4] and given is tables[-1])
        while run._end_after is None:
            run.tick({})
        run.end()
    engine = ms.Engine()
    for name in "ab":
        engine.stream(name, pa.concat_tables([t[name] for t in tables]), time="ts")
    expected = engine.query(JOIN).start().table()
    assert ms.read(tmp_path / "out").select(["x", "y"]).to_pylist() == expected.select(["x", "y"]).to_pylist()
    batch = run.status()["last_batch"]
    assert [site["site"] for site in batch["sites"]] == ["tokyo", "london", "paris"]
    assert batch["sites"][0]["operators"][0].startswith("NOS_a = {")
    assert sum(batch["sites"][0]["bytes"].values()) > 0
    shown = dict(facts(run.status()))
    assert "NOS_b" in shown["london"]
    assert "a bucket for each site: a at tokyo, b at london; results go to paris" in shown["buckets"]


def test_what_plans_itself_is_not_asked_to(tmp_path: Path) -> None:
    stores = dict[int, Store]()
    run = HostedRun(JOIN, two_streams(), tmp_path, stores, sites=AT)
    with pytest.raises(MidstreamError, match="a query over sites cannot be changed"):
        run.change(JOIN + " AND a.v > 1")
    identity = run.migrate("(b a)")
    run.tick({"a": table_of(random.Random(1), 0), "b": None})
    record = run.wait_for_migration(identity, 0)
    assert record is not None
    assert record["state"] == "refused"
    assert "changes its plan by itself" in record["reason"]
    run.end()
    moved = DeclaredSites({"a": "tokyo", "b": "tokyo"}, "paris")
    for sites in (None, moved):
        with pytest.raises(MidstreamError, match="was written for a bucket for each site: a at tokyo, b at london"):
            HostedRun(JOIN, two_streams(), tmp_path, stores, sites=sites)
