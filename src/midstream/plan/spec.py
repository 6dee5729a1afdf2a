"""How a plan of a hopping query is asked for, in words: `push-down modes=auto working=window hop=30s`."""

import re
from dataclasses import dataclass, replace

from midstream.model.errors import PlanError
from midstream.model.time import parse_duration
from midstream.plan.modes import MODES, TUPLE, WINDOW

OPTIMAL, PUSH_DOWN, AS_WRITTEN, SAME = "optimal", "push-down", "as-written", "same"
SHAPES = {
    OPTIMAL: "the cheapest join order and place of every difference",
    PUSH_DOWN: "every difference as deep as it may be",
    AS_WRITTEN: "the operators as the query has them",
    SAME: "the tree that runs",
}
AUTO, ALL_DELTA, ALL_COMPLETE = "auto", "delta", "complete"


@dataclass(frozen=True)
class PlanSpec:
    """What is asked of a plan: the shape of its tree, the modes and the working of its operators, another hop."""

    shape: str = OPTIMAL
    modes: str | tuple[str, ...] = AUTO
    working: str = WINDOW
    hop_us: int | None = None


def parse_spec(text: str | None, before: PlanSpec | None = None) -> PlanSpec:
    """Read what is asked of a plan; what is not said stays as it was before.

    >>> parse_spec("push-down modes=delta")
    PlanSpec(shape='push-down', modes='delta', working='window', hop_us=None)
    >>> parse_spec("modes=DIDO,CICO hop=30s").modes
    ('DIDO', 'CICO')
    >>> parse_spec("((a b) c) modes=delta")
    PlanSpec(shape='((a b) c)', modes='delta', working='window', hop_us=None)
    """
    spec = before or PlanSpec()
    said: set[str] = set()
    order, words = _order(text or "")
    if order:
        said, spec = {"shape"}, replace(spec, shape=order)
    for word in words.split():
        name, equals, value = word.partition("=")
        what = name if equals else "shape"
        if what in said:
            raise PlanError(f"plan '{text}' says its {what} twice")
        said.add(what)
        if not equals:
            if word not in SHAPES:
                raise PlanError(
                    f"'{word}' is no shape of a hopping plan; it can be {', '.join(SHAPES)}, or a join order such as "
                    "((a b) c)"
                )
            spec = replace(spec, shape=word)
        elif name == "modes":
            spec = replace(spec, modes=_modes(value))
        elif name == "working":
            if value not in (WINDOW, TUPLE):
                raise PlanError(f"working is '{value}'; it can be {WINDOW} or {TUPLE}")
            spec = replace(spec, working=value)
        elif name == "hop":
            spec = replace(spec, hop_us=_hop(value))
        else:
            raise PlanError(f"'{name}' is not known of a hopping plan; it has modes, working and hop")
    return spec


def is_order(shape: str) -> bool:
    """Tell whether a shape is a join order."""
    return shape.startswith("(")


def _order(text: str) -> tuple[str, str]:
    """Return the join order that a text has, and what else is in it."""
    begin, depth = text.find("("), 0
    if begin < 0:
        return "", text
    for found in re.finditer(r'"[^"]*"|[()]', text[begin:]):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if not depth:
            end = begin + found.end()
            return text[begin:end], f"{text[:begin]} {text[end:]}"
    raise PlanError(f"plan '{text}' opens a bracket and does not close it")


def _modes(text: str) -> str | tuple[str, ...]:
    if text in (AUTO, ALL_DELTA, ALL_COMPLETE):
        return text
    modes = tuple(text.upper().split(","))
    for mode in modes:
        if mode not in MODES:
            raise PlanError(f"'{mode}' is no mode; modes are {AUTO}, {ALL_DELTA}, {ALL_COMPLETE} or {', '.join(MODES)}")
    return modes


def _hop(text: str) -> int:
    hop_us = parse_duration(text)
    if hop_us <= 0:
        raise PlanError(f"a hop is longer than nothing, not {text}")
    return hop_us
