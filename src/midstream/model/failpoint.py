"""Failpoints: named points at which a process ends itself, so that tests can kill it at an exact place.

    MIDSTREAM_FAILPOINT="sink pending:3"       SIGKILL when that point is passed the third time; several with commas
    MIDSTREAM_FAILPOINT_NOTES=folder           who was killed where; what is noted there does not kill again

Passes are counted in each process. Without the first variable a point costs one comparison.
"""

import os
import signal
from pathlib import Path

VARIABLE, NOTES = "MIDSTREAM_FAILPOINT", "MIDSTREAM_FAILPOINT_NOTES"


def parse(text: str) -> dict[str, set[int]]:
    """Read which passes of which points kill.

    >>> parse("sink pending:3, batch noted, sink pending:5")
    {'sink pending': {3, 5}, 'batch noted': {1}}
    """
    found: dict[str, set[int]] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, count = part.partition(":")
        found.setdefault(name.strip(), set()).add(int(count or 1))
    return found


_deadly = parse(os.environ.get(VARIABLE, ""))
_passed: dict[str, int] = {}


def reach(name: str) -> None:
    """Pass a point, or end here."""
    if _deadly and name in _deadly:
        _passed[name] = _passed.get(name, 0) + 1
        if _passed[name] in _deadly[name] and _note(f"{name}:{_passed[name]}"):
            os.kill(os.getpid(), signal.SIGKILL)


def _note(what: str) -> bool:
    """Note a kill where all processes see it; tell whether it is the first."""
    folder = os.environ.get(NOTES)
    if not folder:
        return True
    Path(folder).mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(Path(folder) / what, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
