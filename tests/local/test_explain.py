"""Explained plans: what people read of them."""

import re

import pytest
from lang.streams import CATALOG

from midstream.lang.sql import parse_query
from midstream.local.explain import explain_plan
from midstream.local.replay import make_plan
from midstream.model.statistics import Statistics
from midstream.optimize.hopping import place_differences
from midstream.plan.modes import MODES


def test_costs_stand_apart_however_large_they_are() -> None:
    query = parse_query("SELECT a.k FROM stock [ROWS 1] a, prices [ROWS 1] b WHERE a.k = b.k HOP BY 1 SECOND", CATALOG)
    plan = make_plan(query)
    for rows in (10.0, 1e6, 1e9, 1e12):
        known = Statistics(window_rows={"a": rows, "b": rows})
        lines = explain_plan(plan, statistics=known).splitlines()
        drawn = [line.split() for line in lines if re.search(r"  [DC]I[DC]O  ", line) and "ms per hop" not in line]
        assert len(drawn) == len(plan.modes)
        for words in drawn:
            assert words[-6] in MODES
            assert [float(word.replace(",", "")) for word in words[-5:]], "rows, and a cost for each mode"


def test_a_search_that_is_cut_off_is_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "SELECT a.k FROM (SELECT k FROM stock [ROWS 1] a EXCEPT ALL SELECT k FROM prices [ROWS 1] b) a, "
        "stock [ROWS 2] c, prices [ROWS 3] d WHERE a.k = c.k AND c.k = d.k HOP BY 1 SECOND"
    )
    plan = make_plan(parse_query(text, CATALOG))
    assert "are not looked at" not in explain_plan(plan)
    monkeypatch.setattr(place_differences, "MOST_JOINS", 0)
    said = " ".join(explain_plan(plan).split())
    assert re.search(r"the best of \d+ places of differences; [1-9]\d* more, and .* are not looked at", said)
