"""Documentation that is not executed is presumed wrong: run the examples of the README and of docs/."""

import functools
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from midstream.app.cli import app
from midstream.lang.sql import parse_query
from midstream.local.scenario import read_scenario
from midstream.model.stream import StreamSchema
from midstream.spark.pipeline_file import read_pipeline

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])


def blocks(page: Path, language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def pages_with(language: str) -> list[Path]:
    return [p for p in PAGES if blocks(p, language)]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", pages_with("python"), ids=name)
def test_python_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shared: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, name(page), "exec"), shared)


@pytest.mark.spark
@pytest.mark.parametrize("page", pages_with("python spark"), ids=name)
def test_python_examples_run_on_spark(page: Path, tmp_path: Path) -> None:
    # In a process of its own: a JVM that runs already would look for relative paths in another folder.
    script = tmp_path / "example.py"
    script.write_text("\n".join(blocks(page, "python spark")))
    ended = subprocess.run([sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True, timeout=180)
    assert ended.returncode == 0, ended.stderr[-2000:]


@pytest.mark.parametrize("page", pages_with("sql"), ids=name)
def test_sql_examples_bind(page: Path) -> None:
    numbers = [(n, pa.int64()) for n in ("ts", "k", "qty")]
    schema = pa.schema([*numbers, ("price", pa.float64()), ("label", pa.string())])
    catalog = [StreamSchema(stream, schema, "ts") for stream in ("orders", "prices", "stock")]
    for block in blocks(page, "sql"):
        assert parse_query(block, catalog).schema.names


@pytest.mark.parametrize("page", pages_with("toml"), ids=name)
def test_scenario_examples_are_accepted(page: Path, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT a.k FROM a")
    for block in blocks(page, "toml"):
        file = tmp_path / "scenario.toml"
        file.write_text(block)
        assert read_scenario(file).streams


@pytest.mark.parametrize("page", pages_with("toml pipeline"), ids=name)
def test_pipeline_examples_are_accepted(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "none at all")
    (tmp_path / "q.sql").write_text("SELECT a.k FROM a")
    for block in blocks(page, "toml pipeline"):
        file = tmp_path / "pipeline.toml"
        file.write_text(block)
        assert read_pipeline(file).streams


@pytest.mark.parametrize("page", pages_with("console"), ids=name)
def test_commands_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "build").mkdir()
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for block in blocks(page, "console"):
        for line in block.splitlines():
            words = shlex.split(line.removeprefix("$ "))
            assert words[0] == "midstream"
            assert app(words[1:], standalone_mode=False) in (None, 0)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_that_are_named_exist(page: Path) -> None:
    """By their path, or the end of it, as `engine/run/family.py`; folders from the root on."""
    named = re.findall(
        r"`((?:[\w.-]+/)*[\w-]+\.py|(?:src|tests|docs|examples|tools|benchmarks)/[\w./-]+)`", page.read_text()
    )
    missing = [n for n in named if not any(f"/{file}".endswith(f"/{n.rstrip('/')}") for file in files())]
    assert not missing


@functools.cache
def files() -> list[str]:
    """Return files and folders of the project, relative to its root."""
    found = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return sorted({*found, *(str(p) for f in found for p in Path(f).parents)})


def test_every_word_of_the_report_is_documented() -> None:
    from midstream.local.report import BatchReport, Report

    text = (ROOT / "docs/replay.md").read_text(encoding="utf-8")
    for key in (*BatchReport.__dataclass_fields__, *Report.__dataclass_fields__):
        assert f"`{key}`" in text or key == "runtime", key
