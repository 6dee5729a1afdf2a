"""No cycles: neither among modules nor among packages, where a package is a folder and the modules in it.

Imports are read from the syntax tree, so those inside functions and under `if TYPE_CHECKING` count too.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

import pytest
from test_rooms import PACKAGE, imports_of

Graph = dict[str, set[str]]


def sources() -> dict[str, str]:
    """Return the text of every module of the package, by its path inside it."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {file.relative_to(PACKAGE).as_posix(): file.read_text(encoding="utf-8") for file in files}


def module_of(path: str) -> str:
    """Return the dotted name of a file.

    >>> module_of("plan/nodes.py"), module_of("plan/__init__.py"), module_of("__init__.py")
    ('midstream.plan.nodes', 'midstream.plan', 'midstream')
    """
    parts = ["midstream", *Path(path).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(path: str) -> str:
    """Return the folder of a file, dotted.

    >>> package_of("operators/sliding/join.py"), package_of("__init__.py")
    ('midstream.operators.sliding', 'midstream')
    """
    return ".".join(["midstream", *Path(path).parent.parts])


def module_graph(texts: Mapping[str, str]) -> Graph:
    """Return which modules each module imports."""
    modules = {module_of(path) for path in texts}
    graph: Graph = {module: set() for module in modules}
    for path, text in texts.items():
        for _, name in imports_of(PurePosixPath(path), text):
            # `from a import b` is the module a.b if there is one, else something in a.
            found = name if name in modules else name.rpartition(".")[0]
            if found in modules and found != module_of(path):
                graph[module_of(path)].add(found)
    return graph


def package_graph(texts: Mapping[str, str]) -> Graph:
    """Return which packages the modules of each package import."""
    home = {module_of(path): package_of(path) for path in texts}
    graph: Graph = {package: set() for package in home.values()}
    for module, imported in module_graph(texts).items():
        graph[home[module]] |= {home[m] for m in imported} - {home[module]}
    return graph


def cycles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the groups of nodes that all reach each other, of two and more.

    >>> cycles({"a": ["b"], "b": ["c"], "c": ["b"]})
    [['b', 'c']]
    """
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        waiting = list(graph[start])
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += graph[node]
        reached[start] = seen
    groups = {frozenset({a} | {b for b in reached[a] if a in reached[b]}) for a in graph if a in reached[a]}
    return sorted(sorted(group) for group in groups)


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert cycles(module_graph(sources())) == []


def test_no_packages_import_each_other_in_a_circle() -> None:
    assert cycles(package_graph(sources())) == []


@pytest.mark.parametrize(
    "texts",
    [
        {"a/x.py": "from midstream.a import y", "a/y.py": "def late():\n    from midstream.a.x import Name"},
        {"a/x.py": "import midstream.b.y", "b/y.py": "if TYPE_CHECKING:\n    from ..a.x import Name"},
    ],
)
def test_a_circle_of_modules_is_found(texts: dict[str, str]) -> None:
    assert cycles(module_graph(texts)) == [sorted(module_of(path) for path in texts)]


def test_a_circle_of_packages_is_found_where_modules_have_none() -> None:
    texts = {
        "a/x.py": "from midstream.b.y import Y",
        "b/y.py": "",
        "b/z.py": "from midstream.a.w import W",
        "a/w.py": "",
    }
    assert cycles(module_graph(texts)) == []
    assert cycles(package_graph(texts)) == [["midstream.a", "midstream.b"]]
