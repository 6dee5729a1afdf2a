"""The report: one page that needs no network, for narrow and wide screens and for paper."""

import html
from collections.abc import Sequence

from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Finding, Study, Verdict

Part = tuple[Study, str, Sequence[tuple[str, Finding]]]
"""A study, its picture as SVG, its claims and what was found of each."""

MARK = {Verdict.HOLDS: "holds", Verdict.OTHER: "other", Verdict.NOT: "not"}
STYLE = """
:root { --ink: #1c2127; --soft: #5a6570; --line: #d8dde2; --back: #ffffff; --blue: #0b63a5; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1180px; padding: 1.2rem; color: var(--ink); background: var(--back);
  font: 16px/1.5 "DejaVu Sans", "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.7rem; margin: 0.4rem 0; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 0.3rem; border-top: 2px solid var(--ink); padding-top: 0.8rem; }
h3 { font-size: 1.08rem; margin: 1.8rem 0 0.3rem; }
p { margin: 0.5rem 0; max-width: 75ch; }
a { color: var(--blue); }
nav ul { columns: 2; padding-left: 1.2rem; }
nav li { break-inside: avoid; margin-bottom: 0.2rem; }
.figure { color: var(--soft); font-size: 0.9rem; }
.study { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 1.2rem; align-items: start; }
.picture { overflow-x: auto; }
.picture svg { width: 100%; height: auto; display: block; }
.lesson { border-left: 4px solid var(--blue); padding-left: 0.8rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.88rem; }
th, td { text-align: left; vertical-align: top; padding: 0.45rem 0.5rem; border-bottom: 1px solid var(--line);
  overflow-wrap: break-word; }
.claims { table-layout: fixed; }
.claims th:last-child { width: 8rem; }
.why { color: var(--soft); }
.verdict { display: inline-block; padding: 0.1rem 0.45rem; border-radius: 0.3rem; font-size: 0.8rem; font-weight: 600;
  border: 1px solid currentColor; }
.holds { color: #17693a; } .other { color: #8a5a00; } .not { color: #a3222c; }
.summary td, .summary th { text-align: right; } .summary td:first-child, .summary th:first-child { text-align: left; }
@media (max-width: 800px) {
  body { padding: 0.8rem; font-size: 15px; }
  .study { display: block; }
  .picture svg { width: auto; min-width: 34rem; }
  nav ul { columns: 1; }
  .claims th:last-child { width: 6.4rem; }
  th, td { padding: 0.4rem 0.3rem; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  nav { display: none; }
  .study { display: block; }
  h2, h3 { break-after: avoid; }
  tr, .picture, .lesson { break-inside: avoid; }
  .picture svg { max-width: 16cm; }
}
"""


def page(parts: Sequence[Part], scale: Scale) -> str:
    """Return the report as HTML."""
    papers = list(dict.fromkeys(study.paper for study, _, _ in parts))
    body = [
        "<h1>The papers' studies on this engine</h1>",
        "<p>Each figure or table was computed anew with Midstream. What a paper claims of it is a predicate over the "
        "figures, so that it can fail; the sentence beside each verdict has the numbers. Costs are counted, not timed: "
        "predicate evaluations, entries put into states, probes, messages. Where something takes time, a simulated "
        f"processor of given speed takes it. Scale: {scale.factor:g} of the papers' sizes.</p>",
        _summary(parts, papers),
        _contents(parts),
    ]
    for paper in papers:
        body.append(f"<h2>{html.escape(paper)}</h2>")
        body += [_study(*part) for part in parts if part[0].paper == paper]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Midstream: the papers' studies</title><style>{STYLE}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(body) + "\n</body></html>\n"


def _summary(parts: Sequence[Part], papers: Sequence[str]) -> str:
    rows = []
    for paper in papers:
        verdicts = [f.verdict for study, _, claims in parts if study.paper == paper for _, f in claims]
        cells = "".join(f"<td>{verdicts.count(verdict)}</td>" for verdict in Verdict)
        rows.append(f"<tr><td>{html.escape(paper)}</td><td>{len(verdicts)}</td>{cells}</tr>")
    heads = "".join(f"<th>{html.escape(verdict)}</th>" for verdict in Verdict)
    return f'<table class="summary"><tr><th>paper</th><th>claims</th>{heads}</tr>{"".join(rows)}</table>'


def _contents(parts: Sequence[Part]) -> str:
    items = [
        f'<li><a href="#{s.name}">{html.escape(f"{s.paper}, {s.figure}")}</a>: {html.escape(s.title)}</li>'
        for s, _, _ in parts
    ]
    return f"<nav><ul>{''.join(items)}</ul></nav>"


def _study(study: Study, svg: str, claims: Sequence[tuple[str, Finding]]) -> str:
    rows = "".join(
        f'<tr><td>{html.escape(text)}<div class="why">{html.escape(found.why)}</div></td>'
        f'<td><span class="verdict {MARK[found.verdict]}">{html.escape(found.verdict)}</span></td></tr>'
        for text, found in claims
    )
    label = html.escape(f"{study.paper}, {study.figure}: {study.title}", quote=True)
    return (
        f'<section id="{study.name}"><h3>{html.escape(study.title)}</h3>'
        f'<p class="figure">{html.escape(study.paper)}, {html.escape(study.figure)} · {study.name}</p>'
        f"<p>{html.escape(study.about)}</p>"
        f'<div class="study"><div class="picture" role="img" aria-label="{label}">{own_names(svg, study.name)}</div>'
        '<table class="claims"><tr><th>what the paper claims, and what was found</th><th>verdict</th></tr>'
        f"{rows}</table></div>"
        f'<p class="lesson">{html.escape(study.lesson)}</p></section>'
    )


def own_names(svg: str, name: str) -> str:
    """Give everything in a picture a name of its own, since all are on one page.

    >>> own_names('<path id="a"/><use xlink:href="#a" clip-path="url(#b)"/>', "x")
    '<path id="x-a"/><use xlink:href="#x-a" clip-path="url(#x-b)"/>'
    """
    for mark in (' id="', 'href="#', "url(#"):
        svg = svg.replace(mark, f"{mark}{name}-")
    return svg
