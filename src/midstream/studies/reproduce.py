"""Reproduce: compute studies, judge their claims, draw them, write the report.

studies ──▶ cases, kept as they are computed ──▶ data ──▶ claims.json, pictures, report.html
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from midstream.model.errors import MidstreamError
from midstream.studies.compute import Progress, compute
from midstream.studies.frame.data import Columns, Data
from midstream.studies.frame.picture import draw, load
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Claim, Finding, Study, Verdict
from midstream.studies.page import page


@dataclass(frozen=True)
class Judged:
    """A claim of a study, the figures it was judged by, and what was found."""

    study: Study
    claim: Claim
    figures: Mapping[str, Any]
    finding: Finding

    def to_dict(self) -> dict[str, Any]:
        """Return what stands in claims.json."""
        return {
            "paper": self.study.paper,
            "figure": self.study.figure,
            "study": self.study.name,
            "claim": self.claim.text,
            "verdict": str(self.finding.verdict),
            "figures": dict(self.figures),
            "why": self.finding.why,
        }


@dataclass(frozen=True)
class Done:
    """A study that was done: its data, its claims, its picture as SVG."""

    study: Study
    data: Data
    claims: list[Judged]
    svg: str


def data_of(study: Study, scale: Scale, found: Mapping[str, Columns]) -> Data:
    """Put together what the cases of a study have found."""
    return Data.of((case.given, found[case.name]) for case in study.cases(scale))


def judge(study: Study, data: Data) -> list[Judged]:
    """Judge the claims of a study by its data."""
    judged = []
    for claim in study.claims:
        figures = claim.figures(data)
        judged.append(Judged(study, claim, figures, claim.judge(figures)))
    return judged


def reproduce(studies: Sequence[Study], folder: Path, scale: Scale, jobs: int, progress: Progress) -> list[Done]:
    """Do studies and write what they found into a folder; what is there from an earlier run is gone on from."""
    load()
    try:
        (folder / "data").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MidstreamError(f"cannot write to {folder}: {error.strerror or error}") from error
    cases = [case for study in studies for case in study.cases(scale)]
    found = compute(cases, folder / "cases", jobs, progress)
    done = []
    for study in studies:
        data = data_of(study, scale, found)
        data.write(folder / "data", study.name)
        done.append(Done(study, data, judge(study, data), draw(study, data, folder / f"{study.name}.png")))
    claims = [judged.to_dict() for one in done for judged in one.claims]
    (folder / "claims.json").write_text(json.dumps(claims, indent=1) + "\n", encoding="utf-8")
    parts = [(one.study, one.svg, [(j.claim.text, j.finding) for j in one.claims]) for one in done]
    (folder / "report.html").write_text(page(parts, scale), encoding="utf-8")
    return done


def count_verdicts(done: Sequence[Done]) -> dict[Verdict, int]:
    """Return how many claims there are of each verdict."""
    findings = [judged.finding.verdict for one in done for judged in one.claims]
    return {verdict: findings.count(verdict) for verdict in Verdict}
