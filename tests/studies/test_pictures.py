"""Pictures and the page: axes have names, texts do not cover each other, nothing overlaps in a browser."""

import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path

import pytest

from midstream.studies.catalog import chosen
from midstream.studies.compute import compute
from midstream.studies.frame.data import Data
from midstream.studies.frame.picture import LOOK, figure_of, load
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Study
from midstream.studies.reproduce import data_of, reproduce

pytest.importorskip("matplotlib", reason="pictures need matplotlib")
NAMES = ("jisc-complete-states", "hybmig-table1")
"""Quick ones; `test_studies.py` looks at the others."""
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
LOOK_FOR_OVERLAPS = """
<script>
const found = [];
const boxes = element => element.getBoundingClientRect();
const named = element => element.tagName + "." + element.className + " " + element.textContent.slice(0, 40);
if (document.documentElement.scrollWidth > window.innerWidth) found.push("the page is wider than the window");
for (const parent of document.querySelectorAll("body, section, .study, tr, nav ul")) {
  const inside = [...parent.children].filter(e => boxes(e).width > 0 && !["SCRIPT", "STYLE"].includes(e.tagName));
  for (let i = 0; i < inside.length; i++) for (let j = i + 1; j < inside.length; j++) {
    const a = boxes(inside[i]), b = boxes(inside[j]);
    const over = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const under = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (over > 1 && under > 1) found.push(named(inside[i]) + " overlaps " + named(inside[j]));
  }
}
for (const part of document.querySelectorAll("p, table, nav, .picture, h1, h2, h3, .verdict")) {
  const box = boxes(part);
  if (box.right > window.innerWidth + 1 || box.left < -1) found.push(named(part) + " leaves the window");
}
for (const cell of document.querySelectorAll("td, th, p, .verdict"))
  if (cell.scrollWidth > cell.clientWidth + 1 && cell.clientWidth > 0) found.push(named(cell) + " is cut");
document.body.setAttribute("data-found", JSON.stringify(found));
document.body.setAttribute("data-width", window.innerWidth);
</script>
"""


def trouble(study: Study, data: Data) -> list[str]:
    """Return what is wrong with the picture of a study: axes without names, texts that cover each other."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    found = []
    with load().rc_context(LOOK):
        figure = figure_of(study, data)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        renderer = canvas.get_renderer()
        texts = []
        for axes in figure.axes:
            if not axes.get_xlabel():
                found.append(f"{study.name}: an axis has no name")
            texts += (axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label, *axes.texts)
            for axis in (axes.xaxis, axes.yaxis):
                low, high = sorted(axis.get_view_interval())
                texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        texts += [t for legend in figure.legends for t in legend.get_texts()]
        boxes = [
            (t.get_text(), t.get_window_extent(renderer)) for t in texts if t.get_visible() and t.get_text().strip()
        ]
        inside = figure.bbox
        boxes = [(text, box) for text, box in boxes if box.width and inside.x0 <= box.x0 + box.width / 2 <= inside.x1]
        for (a, one), (b, other) in combinations(boxes, 2):
            over = min(one.x1, other.x1) - max(one.x0, other.x0)
            under = min(one.y1, other.y1) - max(one.y0, other.y0)
            if over > 1 and under > 2:
                found.append(f"{study.name}: {a!r} covers {b!r}")
        found += [f"{study.name}: {text!r} leaves the picture" for text, box in boxes if box.x0 < -1 or box.y0 < -1]
    return found


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studies")
    reproduce(chosen(NAMES), folder, Scale(0.1), 1, lambda done, total, name: None)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_texts_of_a_picture_do_not_cover_each_other(name: str, quick: Path) -> None:
    (study,) = chosen([name])
    found = compute(study.cases(Scale(0.1)), quick / "cases", 1, lambda done, total, name: None)
    assert trouble(study, data_of(study, Scale(0.1), found)) == []


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_overlaps_in_a_browser(width: int, quick: Path, tmp_path: Path) -> None:
    if not CHROMIUM:
        pytest.skip("chromium is not installed: apt-get install chromium")
    seen = overlaps(quick / "report.html", width, tmp_path)
    assert seen == (width, [])


def test_what_overlaps_is_found(quick: Path, tmp_path: Path) -> None:
    if not CHROMIUM:
        pytest.skip("chromium is not installed: apt-get install chromium")
    page = (quick / "report.html").read_text()
    broken = tmp_path / "broken.html"
    broken.write_text(page.replace("</style>", ".lesson { margin-top: -4rem; } h1 { width: 2000px; }</style>"))
    _, found = overlaps(broken, 1280, tmp_path)
    assert any("overlaps" in what for what in found)
    assert any("wider" in what for what in found)


def overlaps(report: Path, width: int, folder: Path) -> tuple[int, list[str]]:
    """Open a report in a window; return how wide that was, and what is wrong there."""
    # Windows of Chromium are no narrower than 500 pixels: a frame is as narrow as one likes.
    page = folder / "page.html"
    page.write_text(report.read_text().replace("</body>", LOOK_FOR_OVERLAPS + "</body>"))
    frame = folder / "frame.html"
    frame.write_text(
        f'<body style="margin:0"><iframe id="f" src="page.html" style="border:0;width:{width}px;height:900px"></iframe>'
        "<script>window.onload = () => { const b = document.getElementById('f').contentDocument.body;"
        "document.body.setAttribute('data-found', b.getAttribute('data-found'));"
        "document.body.setAttribute('data-width', b.getAttribute('data-width')); }</script>"
    )
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               "--allow-file-access-from-files",
               f"--user-data-dir={folder / 'profile'}", "--window-size=1400,1000", "--virtual-time-budget=5000",
               "--dump-dom", frame.as_uri()]  # fmt: skip
    dumped = subprocess.run([CHROMIUM, *options], capture_output=True, text=True, timeout=180, check=True).stdout
    found, seen = re.search(r'data-found="([^"]*)"', dumped), re.search(r'data-width="(\d+)"', dumped)
    assert found is not None, dumped[:500]
    assert seen is not None
    return int(seen[1]), json.loads(found[1].replace("&quot;", '"').replace("&amp;", "&"))
