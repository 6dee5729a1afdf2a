"""`midstream explain --sites`: what people see of a plan over sites, and its picture; nothing lies over anything."""

import random
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sites.setups import drawn_model, drawn_stream, names, paper_model, paper_stream

from midstream.app.cli import main
from midstream.local.explain_sites import SitesExplained
from midstream.local.sites_picture import sites_picture
from midstream.sites.greedy import greedy_plan

RUN = '[run]\nframework = "sites"\n'
SQL = "SELECT a.v FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS], c [RANGE 1 SECOND] WHERE a.k = b.k AND b.k = c.k"


@pytest.fixture
def explain(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Run `midstream explain` on streams of 100, 10 and 50 rows a second with ten keys; return code, stdout, stderr."""
    for name, gap in (("a", 10_000), ("b", 100_000), ("c", 20_000)):
        count = 20_000_000 // gap
        rows = {"ts": [n * gap for n in range(count)], "k": [n % 10 for n in range(count)], "v": list(range(count))}
        pq.write_table(pa.table(rows), tmp_path / f"{name}.parquet")
    monkeypatch.chdir(tmp_path)

    def run(*argv: str, run: str = RUN, sql: str = SQL, sites: str = "xyz") -> tuple[int, str, str]:
        streams = "".join(
            f'[streams.{n}]\npath = "{n}.parquet"\ntime = "ts"\nsite = "{s}"\n'
            for n, s in zip("abc", sites, strict=True)
        )
        (tmp_path / "scenario.toml").write_text(f'sql = "{sql}"\n{streams}{run}')
        monkeypatch.setattr(sys, "argv", ["midstream", "explain", "scenario.toml", *argv])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    return run


def test_a_plan_and_its_operator_sets(explain) -> None:
    code, out, err = explain("--sites")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:5] == [
        "Sites: update centralized, threshold 0.1",
        "  N_a at x: 100.1 rows/s of 32 bytes, 200.1 in the window",
        "  N_b at y: 10.1 rows/s of 24 bytes, 20.1 in the window",
        "  N_c at z: 50.1 rows/s of 24 bytes, 50.1 in the window",
        "  N_0 at x: takes the results",
    ]
    assert any(re.match(r"  SEP_a = \(\[S_b, S_c\], \[0, 0\]\): \d+\.\d{3} ms$", line) for line in lines)
    assert "  NOS_b = {ship(S_b, N_a), " in out
    assert ("No plan is cheaper" in out) or ("The cheapest plan of all costs" in out)


def test_within_one_site_nothing_is_shipped(explain, tmp_path: Path) -> None:
    code, _, err = explain("--sites", "--svg", "sites.svg", sites="xxx")
    assert (code, err) == (0, "")
    assert "polygon" not in (tmp_path / "sites.svg").read_text()


@pytest.mark.parametrize(
    ("argv", "keys", "sentence"),
    [
        (["--svg", "f.svg"], {}, "--svg goes with --sites"),
        (["--sites", "--plan", "((a b) c)"], {}, "--sites explains the plan over sites, and not --plan"),
        (["--sites", "--svg", "a.parquet"], {}, "cannot write a.parquet: it is also stream 'a'"),
        (["--sites", "--svg", "none/f.svg"], {}, "cannot write none/f.svg: No such file or directory"),
        (["--sites"], {"sql": "SELECT k FROM a [RANGE 1 SECOND]"}, "joins streams, and this query reads one"),
        (["--sites"], {"run": "", "sql": "SELECT k FROM a [RANGE 1 SECOND] HOP BY 1 SECOND"}, "hopping query"),
        (["--sites"], {"run": RUN + '[[links]]\nfrom = "x"\nto = "w"\n'}, "[[links]] names 'w'"),
    ],
)  # fmt: skip
def test_what_cannot_be_explained(explain, argv: list[str], keys: dict[str, str], sentence: str) -> None:
    code, out, err = explain(*argv, **keys)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def explained(seed: int) -> SitesExplained:
    rng = random.Random(seed)
    if seed % 2:
        model = paper_model(8)
        streams = {a: paper_stream(rng.choice((20.0, 100.0, 900.0))) for a in names(8)}
    else:
        model = drawn_model(rng, rng.randint(3, 8))
        streams = {a: drawn_stream(rng, model, a) for a in model.graph.aliases}
    return SitesExplained(model, streams, greedy_plan(model, streams))


@pytest.mark.parametrize("seed", range(6))
def test_nothing_lies_over_anything_in_a_picture(seed: int) -> None:
    shown = explained(seed)
    root = ET.fromstring(sites_picture(shown))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    texts = []
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        long = 7.3 * len(text.text or "")
        x, y = float(text.attrib["x"]), float(text.attrib["y"])
        left = x - {"start": 0.0, "middle": long / 2, "end": long}[text.attrib["text-anchor"]]
        texts.append((left, y - 11, left + long, y + 3))
        assert left >= 0
        assert left + long <= width
        assert y <= height
    arrows = []
    for line in root.iter("{http://www.w3.org/2000/svg}line"):
        if "stroke-dasharray" not in line.attrib:
            y, half = float(line.attrib["y1"]), float(line.attrib["stroke-width"]) / 2
            ends = sorted((float(line.attrib["x1"]), float(line.attrib["x2"])))
            arrows.append((ends[0], y - half, ends[1], y + half))
    boxes = [*texts, *arrows]
    for k, a in enumerate(boxes):
        for b in boxes[k + 1 :]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (a, b)
    between = {(shown.network.site_of(s.source), shown.network.site_of(s.target)) for s in shown.shipped}
    assert len(arrows) == len(between)
