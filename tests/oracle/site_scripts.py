"""Drawn scripts for joins over sites: what is joined where, how plans are modified, what goes wrong on the network."""

import random
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from midstream.model.time import FOREVER
from midstream.plan.plan import Plan
from midstream.sites.declaration import Declared, Link, Update
from midstream.sites.operator_set import OperatorSet
from midstream.sites.query import JoinedQuery
from midstream.sites.simulation import Faults, Simulation
from midstream.sites.start import Setup
from midstream.sites.statistics import StreamStatistics
from oracle.generate import Case
from oracle.site_nodes import part_of

SECOND = 1_000_000


@dataclass(frozen=True)
class Script:
    """A query over sites, how its rows arrive, and what goes wrong."""

    setup: Setup
    faults: Faults
    arrivals: dict[str, list[tuple[int, int]]]
    """By alias: until which event time its rows come, and when."""


@dataclass(frozen=True)
class Outcome:
    """What a script has brought."""

    rows: list[pa.RecordBatch]
    operators: dict[str, OperatorSet]
    """What each node does at the end."""
    modifications: int
    simulation: Simulation


def draw_statistics(rnd: random.Random, plan: Plan) -> dict[str, StreamStatistics]:
    """Draw what is believed of the streams at first, be it right or not: so the first plan may be any."""
    found = {}
    aliases = plan.query.aliases
    for k, alias in enumerate(aliases):
        groups = [str(g) for g, c in enumerate(plan.predicates.classes) if alias in c.aliases]
        others = {a for reads in plan.predicates.conditions.values() if alias in reads for a in reads}
        found[alias] = StreamStatistics(
            rnd.choice([1.0, 10.0, 100.0, 1000.0]) * (1 + rnd.random()),
            rnd.choice([20.0, 150.0, 1000.0]),
            rnd.choice([1.0, 30.0, 500.0]) * (1 + rnd.random()),
            {g: rnd.choice([0.001, 0.05, 0.5]) for g in groups},
            {a: rnd.choice([0.01, 0.3]) for a in aliases[k + 1 :] if a in others},
        )
    return found


def draw_script(rnd: random.Random, case: Case, plan: Plan, faulty: bool) -> Script:
    """Draw where the streams of a case arrive, links, how plans are modified, faults, and when rows come."""
    aliases = plan.query.aliases
    names = [f"site{k}" for k in range(rnd.randint(min(3, len(aliases)), len(aliases)))]
    of_stream: dict[str, str] = {}
    for k, stream in enumerate(dict.fromkeys(stream for _, stream in case.sources)):
        of_stream[stream] = names[k % len(names)] if rnd.random() < 0.8 else rnd.choice(names)
    sites = {alias: of_stream[stream] for alias, stream in case.sources}
    used = sorted(set(sites.values()))
    links = {}
    for source in used:
        for target in used:
            if source != target and rnd.random() < 0.6:
                links[source, target] = Link(rnd.choice([0, 1000, 40_000, 2 * SECOND]), rnd.choice([1e4, 1e6, 1e9]))
    query_site = rnd.choice([*used, *used, "desk"])
    update: Update = rnd.choice(["centralized", "distributed", "centralized", "distributed", "off"])
    declared = Declared(sites, query_site, update, rnd.choice([0.0, 0.1, 0.5]), links, Link(rnd.choice([0, 5000]), 1e6))
    interval_us = rnd.choice([50_000, 200_000, SECOND, 4 * SECOND])
    setup = Setup(JoinedQuery(plan), declared, draw_statistics(rnd, plan), interval_us)
    return Script(setup, draw_faults(rnd) if faulty else Faults(), draw_arrivals(rnd, case, list(aliases)))


def draw_faults(rnd: random.Random) -> Faults:
    """Draw what goes wrong: everything, or only some of it."""
    share = rnd.choice([0.0, 0.02, 0.2])
    deaths = rnd.choice([0, 0, 2, 6])
    return Faults(
        rnd.randrange(2**32),
        lost=share,
        repeated=rnd.choice([0.0, share]),
        delayed=rnd.choice([0.0, 0.3, 1.0]),
        delay_us=rnd.choice([1000, 100_000, 3 * SECOND]),
        deaths=deaths,
        down_us=rnd.choice([10_000, 5 * SECOND]),
        keep_every=rnd.choice([3, 20, 60]) if deaths else 0,
    )


def draw_arrivals(rnd: random.Random, case: Case, aliases: list[str]) -> dict[str, list[tuple[int, int]]]:
    """Draw how the rows of each stream are cut into batches, and when each of these comes."""
    top = 21 * SECOND
    step = rnd.choice([0, 0, SECOND, 5 * SECOND, 60 * SECOND])
    together = rnd.random() < 0.5
    out = {}
    for alias in aliases:
        drawn = sorted({rnd.randrange(1, top) for _ in range(rnd.choice([1, 4, 15]))})
        ends = list(range(step, top, step)) if step else drawn
        shift = 0 if together else rnd.choice([0, SECOND, 10 * SECOND])
        out[alias] = [(end, end + shift) for end in ends] + [(FOREVER, top + shift)]
    return out


def run_script(case: Case, plan: Plan, script: Script, update: Update | None = None) -> Outcome:
    """Run a script; `update` instead of how it says that plans are modified."""
    setup = script.setup
    if update is not None:
        setup = replace(setup, declared=replace(setup.declared, update=update))
    found: list[pa.RecordBatch] = []
    simulation = Simulation(setup, script.faults, lambda results: found.append(results.rows))
    for alias, arrivals in script.arrivals.items():
        part, before = part_of(case, plan, alias), 0
        for end, at_us in arrivals:
            stop = int(np.searchsorted(part.times, end))
            simulation.bring(alias, part.between(before, stop), end, at_us)
            before = stop
    simulation.run_until()
    return Outcome(found, dict(simulation.modifications.running), len(simulation.modifications.all), simulation)
