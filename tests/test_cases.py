"""Golden scripts: every `tests/cases/*.case` is one behaviour, from streams and query to plan and output.

    A title, and why the rows below are right.

    [stream a]                    streams in declaration order; the first column is event time,
    ts: int64 | k: int64          `1500ms` and `2s` are times, a bare number is microseconds,
    1s        | 1                 `null` is NULL, text that is empty or looks like something else is "quoted"
    [stream b, lateness 1 s]      and after it idle and ahead, where they are given
    ...
    [query]
    SELECT ...
    [run]                         optional: the scenario's plan, join, batch, buckets
    plan = "(a b)"
    [versions]                    optional: queries to change to by number, from 2 on, one on each line
    SELECT ...
    [at 3s]                       optional: a migration, a change or a control element at an event time, as in [[at]]
    migrate = "(b a)"             of a scenario
    [explain]                     what `midstream explain` prints, without figures of what it costs
    [output]                      the output file, row by row
    [late]                        optional: the rows set aside

Every script also runs at batch widths of 1 ms and 60 s and with 1 and 2 buckets, and on Spark, always with the same
output. `make cases` rewrites the expectations of all scripts; then read the diff.
"""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from midstream.app.replay import replay
from midstream.local.replay import prepare
from midstream.local.scenario import read_scenario
from midstream.model.time import parse_duration

CASES = sorted((Path(__file__).parent / "cases").glob("*.case"))
SETTINGS = [{}, *({"batch": batch, "buckets": buckets} for batch in ("1 ms", "60 s") for buckets in (1, 2))]


@dataclass(frozen=True)
class Case:
    """A script: its text before the expectations, and the sections by name in the order of the file."""

    path: Path
    title: str
    sections: dict[str, str]

    @property
    def streams(self) -> dict[str, tuple[pa.Table, dict[str, str]]]:
        """Return the rows of each stream and what is allowed of their times, in declaration order."""
        found = {}
        for head, body in self.sections.items():
            if head.startswith("stream "):
                name, *spans = head.removeprefix("stream ").split(", ")
                given = dict(span.split(" ", 1) for span in spans)
                found[name] = read_rows(body), {"lateness": "0 s", **given}
        return found


def read_case(path: Path) -> Case:
    """Read a script."""
    title, *parts = re.split(r"^\[(.+)\]\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return Case(path, title, dict(zip(parts[::2], parts[1::2], strict=True)))


def read_rows(text: str) -> pa.Table:
    """Read a table whose first line names its columns and their types."""
    head, *lines = [line.split(" | ") for line in text.strip().splitlines()]
    names, kinds = zip(*(cell.strip().split(": ") for cell in head), strict=True)
    columns = list(zip(*lines, strict=True)) if lines else [()] * len(names)
    arrays = []
    for column, kind in zip(columns, map(read_type, kinds), strict=True):
        cells = [read_cell(cell.strip(), kind) for cell in column]
        arrays.append(pa.array(cells, pa.string()).cast(kind))
    return pa.table(arrays, names=list(names))


def read_type(text: str) -> pa.DataType:
    """Read a type as Arrow prints it."""
    digits = re.fullmatch(r"decimal128\((\d+), (\d+)\)", text)
    return pa.decimal128(int(digits[1]), int(digits[2])) if digits else pa.type_for_alias(text)


def read_cell(cell: str, kind: pa.DataType) -> str | None:
    """Read one value as text that casts to the type."""
    if cell == "null":
        return None
    if cell.startswith('"'):
        return str(json.loads(cell))
    if pa.types.is_integer(kind) and re.fullmatch(r"-?\d+(ms|s)", cell):
        return str(parse_duration(cell))
    return cell


def show_rows(table: pa.Table) -> str:
    """Write a table as scripts do, in columns that line up."""
    lines = [[f"{f.name}: {f.type}" for f in table.schema]]
    lines += [[show_cell(value) for value in row.values()] for row in table.to_pylist()]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(" | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def show_cell(value: object) -> str:
    """Write one value so that `read_cell` reads it back."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    plain = text and text == text.strip() and text != "null" and not any(c in text for c in '|"\n')
    return text if plain or not isinstance(value, str) else json.dumps(text, ensure_ascii=False)


def execute(case: Case, folder: Path, **settings: object) -> tuple[str, str, str]:
    """Run a script as a scenario; return its plan, output and late rows as text. Other runtimes come in here."""
    lines = [f"sql = {json.dumps(case.sections['query'])}"]
    lines.append(f"versions = {json.dumps(case.sections.get('versions', '').strip().splitlines())}")
    for name, (rows, spans) in case.streams.items():
        pq.write_table(rows, folder / f"{name}.parquet")
        time = rows.column_names[0]
        lines += [f"[streams.{name}]", f'path = "{name}.parquet"', f'time = "{time}"']
        lines += [f'{key} = "{span}"' for key, span in spans.items()]
    given = [line for line in case.sections.get("run", "").splitlines() if line.split(" = ")[0] not in settings]
    lines += ["[run]", *given, *(f"{key} = {json.dumps(value)}" for key, value in settings.items())]
    for head, body in case.sections.items():
        if head.startswith("at "):
            lines += ["[[at]]", f"time = {parse_duration(head.removeprefix('at '))}", body.strip()]
    scenario = folder / "scenario.toml"
    scenario.write_text("\n".join(lines) + "\n", encoding="utf-8")
    rehearsal = prepare(read_scenario(scenario))
    replay(rehearsal, folder / "out.parquet", late=folder / "late.parquet")
    output, late = (show_rows(pq.read_table(folder / f"{name}.parquet")) for name in ("out", "late"))
    plan = rehearsal.plan
    return str(plan) if "HOP BY" in case.sections["query"] else plan.explain(), output, late


def squeeze(text: str) -> list[str]:
    """Return the lines of a section with every run of spaces made one, since columns may be aligned in any way."""
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def rewrite(case: Case, plan: str, output: str, late: str) -> None:
    """Write a script anew with these expectations."""
    sections = {head: body.strip() for head, body in case.sections.items()} | {"explain": plan, "output": output}
    if "late" in sections:
        sections["late"] = late
    text = "".join(f"\n[{head}]\n{body}\n" for head, body in sections.items())
    case.path.write_text(case.title.strip() + "\n" + text, encoding="utf-8")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path, tmp_path: Path) -> None:
    case = read_case(path)
    assert len(case.title.strip()) > 0
    if os.environ.get("REWRITE_CASES"):
        rewrite(case, *execute(case, tmp_path))
        case = read_case(path)
    for settings in SETTINGS:
        plan, output, late = execute(case, tmp_path, **settings)
        assert squeeze(output) == squeeze(case.sections["output"]), settings
        assert plan.splitlines() == case.sections["explain"].strip().splitlines()
        if "late" in case.sections:
            assert squeeze(late) == squeeze(case.sections["late"]), settings
        else:
            assert late.count("\n") == 0, f"rows came late, but the script has no [late]: {late}"


def test_every_case_has_a_title_of_its_own() -> None:
    titles = [read_case(path).title.split("\n")[0] for path in CASES]
    assert len(set(titles)) == len(CASES) >= 60


def test_there_is_a_case_of_every_kind() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in CASES)
    wanted = ["EMIT COMPLETE", "EMIT DELTA", "SLIDE", "EXCEPT SELECT", "EXCEPT ALL", "NOT EXISTS"]
    wanted += [f'strategy = "{s}"' for s in ("moving-state", "parallel-track", "hybrid", "just-in-time")]
    wanted += [f'method = "{m}"' for m in ("immediate", "delayed-drain", "graceful-immediate", "graceful-drain")]
    wanted += [f'method = "drain"\norder = "{order}"' for order in ("query", "stream")]
    wanted += [f'control = "{kind}"' for kind in ("istop", "dstop", "fstart")]
    wanted += ["[versions]", "change = 2", 'migrate = "same modes=', "hop="]
    assert [kind for kind in wanted if kind not in text] == []
