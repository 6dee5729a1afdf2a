"""Tests marked `together`: their rehearsals share streaming queries."""

import inspect
from typing import Any

import pytest

MOST = 64
"""Tests that run side by side."""


class Sharing:
    """Runs the marked tests of a session by the group, when the first of a group is due."""

    def __init__(self) -> None:
        self.raised: dict[str, BaseException | None] = {}

    def run(self, item: pytest.Function) -> None:
        if item.nodeid not in self.raised:
            from spark.together import Together

            marked = [i for i in item.session.items if i.get_closest_marker("together") and i.path == item.path]
            waiting = [i for i in marked if i.nodeid not in self.raised]
            place = waiting.index(item)
            group = waiting[place : place + MOST]
            session = item.funcargs["spark"]
            bodies = {i.nodeid: lambda i=i: i.obj(**arguments(i, item, session)) for i in group}
            self.raised |= Together(session).run(bodies)
        if (error := self.raised.pop(item.nodeid)) is not None:
            raise error


def arguments(item: pytest.Function, first: pytest.Function, session: Any) -> dict[str, Any]:
    """Return what a test is called with: its parameters, the session, a folder of its own; nothing else."""
    given: dict[str, Any] = {"spark": session, **(item.callspec.params if hasattr(item, "callspec") else {})}
    wanted = inspect.signature(item.obj).parameters
    if "folder" in wanted:
        given["folder"] = first._request.getfixturevalue("tmp_path_factory").mktemp("together")
    return {name: given[name] for name in wanted}


@pytest.fixture
def folder() -> None:
    """Name the folder that tests of a group get when they run."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SHARING] = Sharing()


SHARING = pytest.StashKey[Sharing]()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a marked test with its group; every test has its own outcome."""
    if pyfuncitem.get_closest_marker("together") is None:
        return None
    pyfuncitem.config.stash[SHARING].run(pyfuncitem)
    return True
