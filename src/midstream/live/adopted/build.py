"""Builds: how the program of a version is named, `file.py:function` or a function of the running process.

A file is kept as it was when the version was deployed: who edits it later changes nothing that runs.
"""

import ast
from pathlib import Path

from midstream.model.errors import MidstreamError


def is_in_file(build: str) -> bool:
    """Return whether a build is named by file and function.

    >>> is_in_file("jobs/hourly.py:build"), is_in_file("build")
    (True, False)
    """
    return ":" in build


def parts_of(build: str) -> tuple[Path, str]:
    """Return the file and the function of a build, or refuse it.

    >>> parts_of("jobs/hourly.py:build")[1]
    'build'
    >>> parts_of("hourly")
    Traceback (most recent call last):
    midstream.model.errors.MidstreamError: 'hourly' names no program; write file.py:function
    """
    file, _, function = build.rpartition(":")
    if not file or not function.isidentifier():
        raise MidstreamError(f"'{build}' names no program; write file.py:function")
    return Path(file), function


def with_its_folder(build: str) -> str:
    """Return the name of a build with the whole path of its file: who runs it may be in another folder.

    >>> with_its_folder("/jobs/hourly.py:build")
    '/jobs/hourly.py:build'
    """
    file, function = parts_of(build)
    return f"{file.absolute()}:{function}"


def source_of(build: str) -> str:
    """Return the text of the file of a build, if it has that function; nothing is run."""
    file, function = parts_of(build)
    try:
        source = file.read_text(encoding="utf-8")
        tree = ast.parse(source)
    except FileNotFoundError as error:
        raise MidstreamError(f"there is no file {file}") from error
    except (OSError, ValueError) as error:
        raise MidstreamError(f"{file} cannot be read as UTF-8 text") from error
    except SyntaxError as error:
        raise MidstreamError(f"{file} is no Python: {error.msg} (line {error.lineno})") from error
    if not any(_names(node) == function for node in tree.body):
        raise MidstreamError(f"{file} has no function '{function}'")
    return source


def _names(node: ast.stmt) -> str | None:
    """Return what a statement at the top of a file defines."""
    match node:
        case ast.FunctionDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return None
