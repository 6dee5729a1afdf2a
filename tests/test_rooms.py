"""The import table: every room of the package opens only the doors it is given.

Imports are read from the syntax tree, so those inside functions and under `if TYPE_CHECKING` count too.
"""

import ast
import functools
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "midstream"

ROOMS = {
    "model": set(),
    "kernels": set(),
    "plan": {"model"},
    "lang": {"model", "plan"},
    "optimize": {"model", "plan"},
    "operators": {"model", "kernels", "plan"},
    "migrate": {"model", "plan", "operators"},
    "change": {"model", "plan", "operators"},
    "sites": {"model", "kernels", "plan", "optimize", "operators"},
    "engine": {"model", "kernels", "plan", "lang", "optimize", "operators", "migrate", "change", "sites"},
    # The two hosts, and what runs live, whoever brings micro-batches.
    # A rehearsal on Spark reads the same recorded files as one in process.
    "local": {"model", "kernels", "plan", "lang", "optimize", "operators", "migrate", "change", "sites", "engine"},
    "spark": {"model", "kernels", "plan", "lang", "optimize", "operators", "migrate", "change", "sites", "engine"}
    | {"local", "live"},
    "live": {"model", "kernels", "plan", "lang", "optimize", "operators", "migrate", "change", "sites", "engine"}
    | {"local"},
    # They run queries on the host in process, and read what it has counted.
    "studies": {"model", "plan", "lang", "optimize", "migrate", "change", "sites", "engine", "local"},
    "app": {"studies", "front door", "model", "plan", "lang", "change", "migrate", "engine", "local", "live", "spark"},
    # midstream/__init__.py and midstream/__main__.py
    "front door": {"model", "plan", "lang"},
}

# Which rooms may import a package from outside. One that is not listed may be imported nowhere.
OUTSIDE = {
    "numpy": set(ROOMS),
    "pyarrow": set(ROOMS) - {"kernels", "optimize", "front door"},
    "cloudpickle": {"model"},
    "deltalake": {"live"},
    "llvmlite": {"kernels"},
    "numba": {"kernels"},
    "sqlglot": {"lang"},
    "prometheus_client": {"app"},
    "typer": {"app"},
    "rich": {"app"},
    "matplotlib": {"studies"},
}
# These in the Spark room alone.
SPARK = {"pyspark", "py4j", "pandas"}

# Operators compute with expressions and windows; only their builders, files named build*.py, know plans.
PLAN_FOR_OPERATORS = {"midstream.plan.expr", "midstream.plan.window"}

# Names that say nothing about who lives there.
EMPTY_NAMES = {"utils", "common", "helpers", "manager", "base", "impl"}


def room_of(path: PurePosixPath) -> str:
    """Name the room of a file, given by its path inside the package.

    >>> room_of(PurePosixPath("plan/nodes.py")), room_of(PurePosixPath("__init__.py"))
    ('plan', 'front door')
    """
    if str(path) in {"__init__.py", "__main__.py"}:
        return "front door"
    return path.parts[0]


@functools.cache
def imports_of(path: PurePosixPath, source: str) -> tuple[tuple[int, str], ...]:
    """Return line and full dotted name of everything a file imports, `from a import b` as `a.b`."""
    return tuple(_imports_of(path, source))


def _imports_of(path: PurePosixPath, source: str) -> Iterator[tuple[int, str]]:
    package = ["midstream", *path.parent.parts]
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield node.lineno, alias.name
            case ast.ImportFrom(module=module, names=names, level=level):
                # One dot is the package of the file itself, every further dot goes up one.
                above = package[: len(package) - level + 1] if level else []
                start = ".".join([*above, *([module] if module else [])])
                for alias in names:
                    yield node.lineno, f"{start}.{alias.name}"
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, name


def refusal(path: PurePosixPath, name: str) -> str | None:
    """Say why a file may not import `name`, or return None if it may."""
    room = room_of(path)
    top, *rest = name.split(".")
    if top in sys.stdlib_module_names:
        return None

    if top in SPARK:
        return None if room == "spark" else f"{top} belongs in spark/"

    if top != "midstream":
        if room in OUTSIDE.get(top, set()):
            return None
        return f"{top} belongs in: {', '.join(sorted(OUTSIDE.get(top, set()))) or 'no room'}"

    door = rest[0] if rest and rest[0] in ROOMS else "front door"
    if str(path) == "__main__.py" and door == "app":
        return None  # `python -m midstream` is the command line
    if str(path) == "__init__.py" and name.startswith("midstream.app.engine"):
        return None  # `midstream.Engine`
    if str(path) == "kernels/compile.py" and name.startswith(
        ("midstream.model.private_folder.", "midstream.model.release.")
    ):
        return None  # what is compiled is kept on disk, where nobody else may write
    if door not in ROOMS[room] | {room}:
        return f"{room} may import: {', '.join(sorted(ROOMS[room])) or 'no other room'}"
    if room == "operators" and door == "plan" and not path.name.startswith("build"):
        module = ".".join(name.split(".")[:3])
        if module not in PLAN_FOR_OPERATORS:
            return (
                f"only operators' build*.py read plans; the others may import: {', '.join(sorted(PLAN_FOR_OPERATORS))}"
            )
    return None


def complaints(path: PurePosixPath, source: str) -> list[str]:
    """List the doors that a file opens and may not, one readable line each."""
    if room_of(path) not in ROOMS:
        return [f"src/midstream/{path}: lives in no room of the table"]
    found = []
    for line, name in imports_of(path, source):
        why = refusal(path, name)
        if why:
            found.append(f"src/midstream/{path}:{line}: imports {name}, but {why}")
    return found


def test_every_import_is_in_the_table() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert files, f"no modules found in {PACKAGE}"
    found = []
    for file in files:
        path = PurePosixPath(file.relative_to(PACKAGE).as_posix())
        found += complaints(path, file.read_text(encoding="utf-8"))
    assert not found, "doors that are not in the table:\n  " + "\n  ".join(found)


# Rooms that speak to operators by their contract.
BY_CONTRACT = ("migrate", "change", "engine")


def kinds_asked(path: PurePosixPath, source: str) -> list[int]:
    """Return the lines that ask an operator of what kind it is: `isinstance` or `match` with a class of operators."""
    operators = {
        name.rpartition(".")[2] for _, name in imports_of(path, source) if name.startswith("midstream.operators.")
    }
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
                asked = {n.id for n in ast.walk(kinds) if isinstance(n, ast.Name)}
            case ast.MatchClass(cls=ast.Name(id=name)):
                asked = {name}
            case _:
                continue
        if asked & operators:
            found.append(node.lineno if isinstance(node, ast.Call) else node.cls.lineno)
    return found


def test_no_operator_is_asked_of_what_kind_it_is() -> None:
    found = []
    for room in BY_CONTRACT:
        for file in sorted((PACKAGE / room).rglob("*.py")):
            path = PurePosixPath(file.relative_to(PACKAGE).as_posix())
            found += [f"src/midstream/{path}:{line}" for line in kinds_asked(path, file.read_text(encoding="utf-8"))]
    assert not found, "the contract of operators lacks a word here:\n  " + "\n  ".join(found)


@pytest.mark.parametrize(
    "question",
    ["isinstance(x, Eddy)", "isinstance(x, int | Eddy)", "match x:\n    case Eddy():\n        pass"],
)
def test_a_question_for_the_kind_is_found(question: str) -> None:
    source = f"from midstream.operators.sliding.eddy import Eddy\nx = 1\n{question}\nisinstance(x, int)\n"
    assert len(kinds_asked(PurePosixPath("migrate/migrator.py"), source)) == 1


MOST_LINES = 450


def test_no_file_is_long() -> None:
    long = [str(p.relative_to(PACKAGE)) for p in PACKAGE.rglob("*.py") if p.read_text().count("\n") > MOST_LINES]
    assert not long, "more than one idea lives here"


def test_every_name_says_something() -> None:
    paths = [p.relative_to(PACKAGE) for p in PACKAGE.rglob("*") if p.is_dir() or p.suffix == ".py"]
    found = sorted(f"src/midstream/{p}" for p in paths if p.stem.strip("_") in EMPTY_NAMES)
    assert not found, "names that say nothing about what is inside:\n  " + "\n  ".join(found)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("plan/nodes.py", "from midstream.operators.sliding.join import HashJoin"),
        ("plan/nodes.py", "from midstream import operators"),
        ("plan/nodes.py", "from ..operators import join"),
        ("plan/nodes.py", "from .. import operators"),
        ("plan/nodes.py", "def late():\n    import midstream.engine"),
        ("plan/nodes.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from midstream.lang import sql"),
        ("plan/nodes.py", "import importlib\nimportlib.import_module('midstream.lang')"),
        ("local/loop.py", "import midstream"),
        ("local/loop.py", "from midstream import Engine"),
        ("local/loop.py", "from midstream.app import cli"),
        ("__init__.py", "from midstream.app.cli import main"),
        ("kernels/join.py", "from midstream.model import types"),
        ("kernels/join.py", "import pyarrow"),
        ("operators/join.py", "from numba import njit"),
        ("operators/join.py", "from midstream.plan.nodes import Join"),
        ("operators/join.py", "from midstream.plan import nodes"),
        ("operators/join.py", "from midstream.plan import Join"),
        ("operators/join.py", "from midstream import plan"),
        ("plan/text.py", "import sqlglot"),
        ("local/loop.py", "from pyspark.sql import DataFrame"),
        ("local/loop.py", "import pandas as pd"),
        ("local/loop.py", "import rich.table"),
        ("model/batch.py", "import duckdb"),
        ("attic/old.py", ""),
        ("loose.py", ""),
    ],
)
def test_checker_refuses(path: str, source: str) -> None:
    assert len(complaints(PurePosixPath(path), source)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("__init__.py", "from midstream.app.engine import Engine"),
        ("__main__.py", "from midstream.app.cli import main"),
        (
            "app/cli.py",
            "import midstream as ms\nimport typer\nfrom rich.table import Table\nfrom midstream import Engine",
        ),
        ("kernels/join.py", "import numba\nimport numpy as np\nfrom .hash import spread\nimport math"),
        ("lang/sql.py", "from sqlglot import exp\nfrom ..plan.nodes import Join"),
        ("operators/build.py", "from midstream.plan.nodes import Join\nfrom midstream.plan import query"),
        ("operators/join.py", "from midstream.plan.expr import Column\nfrom midstream.plan import window"),
        ("operators/join.py", "from . import state\nfrom .state import Rows\nfrom ..kernels import join"),
        ("spark/graph.py", "import pyspark"),
        ("spark/pack.py", "import pandas as pd"),
        ("spark/run.py", "from pyspark.sql import DataFrame"),
    ],
)
def test_checker_allows(path: str, source: str) -> None:
    assert complaints(PurePosixPath(path), source) == []


def test_complaint_names_file_line_and_door() -> None:
    source = "import numpy\n\ndef late():\n    from midstream.lang import sql\n"
    assert complaints(PurePosixPath("plan/nodes.py"), source) == [
        "src/midstream/plan/nodes.py:4: imports midstream.lang.sql, but plan may import: model"
    ]
