"""`midstream reproduce`: what it writes, that it goes on where it was, that it finds the same again."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from midstream.app.cli import app
from midstream.studies.catalog import chosen
from midstream.studies.compute import compute
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Verdict

pytest.importorskip("matplotlib", reason="pictures need matplotlib")

STUDY = "jisc-complete-states"


def reproduce(*args: str) -> str:
    result = CliRunner().invoke(app, ["reproduce", *args, "--jobs", "1"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_study_is_written_whole(tmp_path: Path) -> None:
    out = tmp_path / "studies"
    reproduce(STUDY, "--scale", "quick", "--out", str(out))
    claims = json.loads((out / "claims.json").read_text())
    assert {"paper", "figure", "claim", "verdict", "figures", "why"} <= set(claims[0])
    assert all(Verdict(claim["verdict"]) for claim in claims)
    page = (out / "report.html").read_text()
    assert "<svg" in page
    assert "http://" not in page.replace("http://www.w3.org/", "").replace("http://purl.org/", "").replace(
        "http://creativecommons.org/", ""
    )
    assert {p.name for p in out.iterdir()} == {"claims.json", "report.html", f"{STUDY}.png", "cases", "data"}
    assert {p.name for p in (out / "data").iterdir()} == {f"{STUDY}.json", f"{STUDY}.parquet"}


def test_what_is_there_is_not_computed_again(tmp_path: Path) -> None:
    (study,) = chosen([STUDY])
    cases = study.cases(Scale(0.1))
    seen: list[str] = []
    first = compute(cases[:3], tmp_path, 1, lambda done, total, name: seen.append(name))
    assert seen == ["", *(case.name for case in cases[:3])]
    seen.clear()
    again = compute(cases[:4], tmp_path, 1, lambda done, total, name: seen.append(name))
    assert seen == ["", cases[3].name]
    assert {name: again[name] for name in first} == first


def test_figures_are_the_same_in_every_run(tmp_path: Path) -> None:
    for name in ("one", "two"):
        reproduce(STUDY, "--scale", "quick", "--out", str(tmp_path / name))
    for file in ("claims.json", f"data/{STUDY}.json", "report.html"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["nothing", "--out", "x"], "there is no study 'nothing'"),
        ([STUDY], "say where to write"),
        ([STUDY, "--out", "x", "--scale", "huge"], "a scale is quick, paper, or a factor from 0.01 to 100, not 'huge'"),
    ],
)
def test_bad_input_is_a_sentence(
    args: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from midstream.app import cli

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["midstream", "reproduce", *args])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err.replace("\n", " ")
    assert not list(tmp_path.iterdir())


def test_the_list_names_every_study() -> None:
    assert STUDY in reproduce("--list")
