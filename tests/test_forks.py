"""What asks a query of what kind it is: few, and the tool that counts them sees them in whatever form."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "count-forks"
MOST = 15
counted = runpy.run_path(str(TOOL), run_name="count_forks")["counted"]


def test_there_are_few_forks() -> None:
    done = subprocess.run([sys.executable, TOOL, "--most", str(MOST)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("isinstance(x, HoppingRun)", "isinstance"),
        ("plan.query.when == HOP", ".when"),
        ("HOP != query.when", ".when"),
        ("query.when in (ROW, CLOSE)", ".when"),
        ("query.when not in SLIDING", ".when"),
        ("HOP in (old.when, new.when)", ".when"),
        ("match query.when:\n    case 'hop':\n        pass", ".when"),
        ("query.emit == CHANGES", ".emit"),
        ("query.hop_us is None", ".hop_us"),
        ("plan.query.joint", ".joint"),
        ("any(query.takes_back for query in queries)", ".takes_back"),
        ("if not self.statement.hops:\n    pass", ".hops"),
        ("if query.parts.stages and x:\n    pass", ".stages"),
        ("x = 1 if len(query.parts.taken) else 2", ".taken"),
        ("def f(spec):\n    return spec.hop_us is None", ".hop_us"),
        ("class A:\n    def f(self):\n        return self.when == HOP", ".when"),
        ("TABLE[query.when](query)", "table"),
    ],
)
def test_a_fork_is_seen(source: str, kind: str) -> None:
    assert [k for _, k in counted(source)] == [kind]


@pytest.mark.parametrize(
    "source",
    [
        "class Query:\n    when: str\n    def f(self):\n        return self.when == HOP",
        "def f(spec: PlanSpec):\n    return spec.hop_us is None",
        "def f(items: list[Departure]):\n    return [d for d in items if d.hop_us is None]",
        "for stage in query.parts.stages:\n    pass",
        "query.emit == DELTA",
        "isinstance(x, RangeWindow)",
    ],
)
def test_what_is_no_fork(source: str) -> None:
    assert counted(source) == []
