"""Failpoints: named points at which processes are ended or halted, so that tests can do it at an exact place.

    MIDSTREAM_FAILPOINT="sink pending:3"            SIGKILL when that point is passed the third time
    MIDSTREAM_FAILPOINT="bucket done:2=kill jvm"    end another process of the run: driver, jvm, daemon, worker, or all
    MIDSTREAM_FAILPOINT="sink pending=stop"         SIGSTOP: a zombie, until somebody sends it SIGCONT
    MIDSTREAM_FAILPOINT="batch noted=kill jvm after 40"   in so many milliseconds; what follows goes on meanwhile
    MIDSTREAM_FAILPOINT_NOTES=folder                what was done where; what is noted there is not done again

Several are separated by commas. Passes are counted in each process. Without the first variable a point costs one
comparison.
"""

import contextlib
import os
import signal
import threading
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from midstream.model.relatives import SELF, found

VARIABLE, NOTES = "MIDSTREAM_FAILPOINT", "MIDSTREAM_FAILPOINT_NOTES"
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


@dataclass(frozen=True)
class Action:
    """What is done at a point, and to whom."""

    verb: str = "kill"
    whom: str = SELF
    after_ms: int = 0

    def __str__(self) -> str:
        later = f" after {self.after_ms}" if self.after_ms else ""
        return f"{self.verb}{'' if self.whom == SELF else f' {self.whom}'}{later}"


def parse(text: str) -> dict[str, dict[int, list[Action]]]:
    """Read what is done at which passes of which points.

    >>> points = parse("a b:3, c=stop, c=kill jvm after 5")
    >>> list(points), [str(action) for action in points["c"][1]]
    (['a b', 'c'], ['stop', 'kill jvm after 5'])
    """
    points: dict[str, dict[int, list[Action]]] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        place, _, action = part.partition("=")
        name, _, count = place.partition(":")
        passes = points.setdefault(name.strip(), {})
        passes.setdefault(int(count or 1), []).append(_action(action))
    return points


def _action(text: str) -> Action:
    """Read an action: `kill` or `stop`, whom, `after` so many milliseconds."""
    words, _, after = text.partition(" after ")
    verb, _, whom = words.strip().partition(" ")
    if verb and verb not in SIGNALS:
        raise ValueError(f"{VARIABLE}: '{text}' is neither kill nor stop")
    return Action(verb or "kill", whom.strip() or SELF, int(after or 0))


_points = parse(os.environ.get(VARIABLE, ""))
_passed: dict[str, int] = defaultdict(int)


def reach(name: str) -> None:
    """Pass a point, or end here."""
    if _points and name in _points:
        _passed[name] += 1
        for action in _points[name].get(_passed[name], ()):
            _do(f"{name}:{_passed[name]}", action)


def _do(place: str, action: Action) -> None:
    """Do it, if nobody has, to who is there."""
    pids = found(action.whom, VARIABLE)
    if pids and _note(place if action == Action() else f"{place}={action}"):
        if action.after_ms:
            threading.Timer(action.after_ms / 1000, _send, (pids, SIGNALS[action.verb])).start()
        else:
            _send(pids, SIGNALS[action.verb])


def _send(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _note(what: str) -> bool:
    """Note an action where all processes see it; tell whether it is the first."""
    folder = os.environ.get(NOTES)
    if not folder:
        return True
    Path(folder).mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(Path(folder) / what, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
