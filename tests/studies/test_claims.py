"""Claims of studies can fail: each comes with figures that break it, and is judged by those of a small run too."""

import pytest

from midstream.studies.catalog import STUDIES
from midstream.studies.frame.study import Claim, Study, Verdict

CLAIMS = [(study, claim) for study in STUDIES for claim in study.claims]


@pytest.mark.parametrize(("study", "claim"), CLAIMS, ids=lambda v: v.name if isinstance(v, Study) else v.text[:40])
def test_a_claim_breaks_by_figures_that_say_otherwise(study: Study, claim: Claim) -> None:
    found = claim.judge(claim.broken)
    assert found.verdict != Verdict.HOLDS
    assert found.why.strip()


def test_names_are_of_one_study_each() -> None:
    names = [study.name for study in STUDIES]
    assert len(set(names)) == len(names)
    assert all(study.claims and study.lesson and study.about for study in STUDIES)
