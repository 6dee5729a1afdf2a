"""A replay over sites gives the rows of one machine, in their order, at any batch width and by any update."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from test_cases import CASES, execute, read_case, squeeze
from typer.testing import CliRunner

from midstream.app.cli import app
from midstream.local.replay import prepare, replay
from midstream.local.scenario import read_scenario
from oracle.generate import Case
from oracle.recompute import plain, recompute
from oracle.test_sites import draw_small_case
from seeds import few_quick, seeds

LINKS = """
[[links]]
from = "site0"
to = "site1"
latency = "700 ms"
bandwidth = "8 kbit/s"

[[links]]
latency = "3 ms"
bandwidth = "10 Mbit/s"
"""


def write_scenario(folder: Path, case: Case, batch: str, update: str, sites: int = 3, more: str = "") -> Path:
    """Write a case whose streams arrive at some sites."""
    text = f'sql = """{case.sql}"""\n'
    for k, (name, table) in enumerate(case.streams.items()):
        pq.write_table(table, folder / f"{name}.parquet")
        text += f'[streams.{name}]\npath = "{name}.parquet"\ntime = "ts"\nsite = "site{k % sites}"\n'
    text += f'[run]\nframework = "sites"\nbatch = "{batch}"\nupdate = "{update}"\nthreshold = 0.1\n{more}'
    path = folder / "sites.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("seed", seeds(0, 60, quick=1))
def test_a_replay_over_sites_equals_recomputing(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(seed)
    case, expected = draw_small_case(rnd, 2, 5)
    links = LINKS if len(case.streams) > 1 else ""
    for update in ("centralized", "distributed"):
        batch = rnd.choice(["100 ms", "1 s", "60 s"])
        got = replay(prepare(read_scenario(write_scenario(tmp_path, case, batch, update, more=links))))[1]
        assert got is not None
        schema = got.schema.remove(got.schema.get_field_index("_version"))
        assert plain(got, schema) == plain(expected, schema), f"{case.sql} | {batch} | {update}"


def test_the_report_says_what_sites_have_said(tmp_path: Path) -> None:
    rnd = random.Random(5)
    case, _ = draw_small_case(rnd, 3, 3)
    while len({stream for _, stream in case.sources}) < 3:  # a node at every site
        case, _ = draw_small_case(rnd, 3, 3)
    path = write_scenario(tmp_path, case, "100 ms", "centralized")
    out, report = tmp_path / "out.parquet", tmp_path / "report.json"
    result = CliRunner().invoke(app, ["replay", str(path), "--out", str(out), "--report", str(report)])
    assert result.exit_code == 0, result.output
    found = json.loads(report.read_text())
    assert pq.read_table(out).num_rows == found["rows_out"] == recompute(case).num_rows
    sites = found["sites"]
    assert sites["messages"]["rows"] > 0
    assert all(" -> " in link and size > 0 for link, size in sites["bytes"].items())
    for modification in sites["modifications"]:
        assert {"when", "trigger", "from", "to", "affected", "ended"} <= modification.keys()
        assert modification["ended"] >= modification["when"]
        assert set(modification["from"]) == set(modification["to"]) == set(modification["affected"])
    synchronized = sum(2 * len(m["affected"]) * (len(m["affected"]) - 1) for m in sites["modifications"])
    assert sites["messages"].get("local-ready", 0) + sites["messages"].get("global-ready", 0) == synchronized


NOT_FOR_SITES = ("HOP BY", " SLIDE ", "EXCEPT", "UNION", "COUNT(", "SUM(")
JOINS = [
    path
    for path in CASES
    if not any(word in read_case(path).sections["query"] for word in NOT_FOR_SITES)
    and len(read_case(path).sections["explain"].split("scan ")) > 2
    and not any(head.startswith("at ") for head in read_case(path).sections)
]


@pytest.mark.parametrize("path", few_quick(JOINS, 3), ids=lambda path: path.stem)
def test_golden_scripts_give_the_same_over_sites(path: Path, tmp_path: Path) -> None:
    """Ties, nulls, rows that are late, streams that fall silent, self-joins, windows of rows: the expectations hold."""
    case = read_case(path)
    names = [head for head in case.sections if head.startswith("stream ")]
    place = CASES.index(path)
    sections = {}
    for head, body in case.sections.items():
        given = f"{head}, site site{names.index(head) % (1 + place % 3)}" if head in names else head
        kept = [line for line in body.splitlines() if line.split(" = ")[0] not in ("plan", "batch", "buckets")]
        sections[given] = "\n".join(kept) if head == "run" else body
    settings = {"framework": "sites", "batch": ("1 ms", "300 ms", "60 s")[place % 3], "threshold": 0}
    update = ("centralized", "distributed", "off")[place // 3 % 3]
    _, output, late = execute(replace(case, sections=sections), tmp_path, **settings, update=update)
    assert squeeze(output) == squeeze(case.sections["output"])
    if "late" in case.sections:
        assert squeeze(late) == squeeze(case.sections["late"])
