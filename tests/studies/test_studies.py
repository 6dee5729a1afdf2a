"""Every study runs at the quick scale: its claims are judged, its picture is readable. Some take turns."""

from pathlib import Path

import pytest
from studies.test_pictures import trouble

from midstream.studies.catalog import STUDIES
from midstream.studies.compute import compute
from midstream.studies.frame.scale import read_scale
from midstream.studies.frame.study import Study, Verdict
from midstream.studies.reproduce import data_of, judge
from seeds import some

pytest.importorskip("matplotlib", reason="pictures need matplotlib")
QUICK = read_scale("quick")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("studies")


@pytest.mark.slow
@pytest.mark.parametrize("study", some(STUDIES, 5), ids=lambda study: study.name)
def test_a_study_at_the_quick_scale(study: Study, folder: Path) -> None:
    cases = study.cases(QUICK)
    assert len({case.name for case in cases}) == len(cases)
    data = data_of(study, QUICK, compute(cases, folder, 1, lambda done, total, name: None))
    judged = judge(study, data)
    assert all(one.finding.verdict in Verdict and one.finding.why for one in judged)
    assert trouble(study, data) == []
