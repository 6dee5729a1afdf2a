"""Networks and statistics for tests: the paper's set-up, and drawn ones."""

import random
from dataclasses import replace

from midstream.sites.cost import CostModel
from midstream.sites.declaration import Declared, Link
from midstream.sites.statistics import JoinGraph, StreamStatistics, complete_graph

WINDOW_S = 0.5
"""Of the paper: 500 ms."""


def names(count: int) -> tuple[str, ...]:
    return tuple(f"s{k + 1}" for k in range(count))


def paper_stream(rate: float) -> StreamStatistics:
    """Return the defaults below Fig. 4, at a rate."""
    return StreamStatistics(rate, 150.0, rate * WINDOW_S, {"0": 0.01})


def paper_model(count: int) -> CostModel:
    """Return nodes at a site each, all of them connected by the default link of the paper."""
    aliases = names(count)
    return CostModel(complete_graph(aliases), Declared({a: a for a in aliases}, aliases[0]))


def drawn_model(rng: random.Random, count: int) -> CostModel:
    """Draw sites, some of several nodes, links, and a join graph that may have gaps and fall apart."""
    aliases = names(count)
    sites = {a: rng.choice(aliases) if rng.random() < 0.3 else a for a in aliases}
    links = {
        (a, b): Link(rng.choice((0, 1000, 5000, 80_000)), rng.choice((1e4, 128_000.0, 1e6)))
        for a in aliases
        for b in aliases
        if a != b and rng.random() < 0.4
    }
    graph = complete_graph(aliases)
    if rng.random() < 0.5:
        graph = JoinGraph(aliases, frozenset(pair for pair in sorted(graph.related, key=sorted) if rng.random() < 0.5))
    return CostModel(graph, Declared(sites, rng.choice(aliases), links=links), rng.choice((1e-6, 5e-8)), 5e-7)


def drawn_stream(rng: random.Random, model: CostModel, alias: str) -> StreamStatistics:
    """Draw statistics of few different values, so that many streams cost the same."""
    rate = float(rng.choice((20, 50, 100, 100, 200, 1000)))
    later = model.graph.aliases[model.graph.aliases.index(alias) + 1 :]
    return StreamStatistics(
        rate,
        float(rng.choice((40, 150, 150, 600))),
        rate * rng.choice((0.5, 0.5, 2.0)),
        {k: rng.choice((0.001, 0.01, 0.01, 0.1)) for k in ("0", "1") if rng.random() < 0.8},
        {b: rng.choice((0.1, 0.5)) for b in later if model.graph.joins(alias, [b]) and rng.random() < 0.2},
    )


def changed(rng: random.Random, model: CostModel, alias: str, before: StreamStatistics) -> StreamStatistics:
    """Draw what statistics change to: one of them, or all."""
    drawn = drawn_stream(rng, model, alias)
    match rng.randrange(6):
        case 0:
            return replace(before, rate=drawn.rate, window=before.window / before.rate * drawn.rate)
        case 1:
            return replace(before, rate=drawn.rate)
        case 2:
            return replace(before, size=drawn.size)
        case 3:
            return replace(before, window=drawn.window)
        case 4:
            return replace(before, factors=drawn.factors, pairs=drawn.pairs)
    return drawn
