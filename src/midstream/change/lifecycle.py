"""The life of a query version: stopped, running or draining, moved by control elements and, once, by the data.

             FStart                DStop
    stopped ───────▶ running ─────────────▶ draining
       ▲ ▲  IStop       │  ▲    FStart          │ │
       │ └──────────────┘  └────────────────────┘ │
       └──────── IStop, or the data: nothing old is left

An element has a position, an event time: it comes before every row from that time on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

FSTART, ISTOP, DSTOP, DRAINED = "FStart", "IStop", "DStop", "drained"
"""The control elements; the last one is the data's own."""
STOPPED, RUNNING, DRAINING = "stopped", "running", "draining"

TRANSITIONS = {
    (STOPPED, FSTART): RUNNING,
    (STOPPED, ISTOP): STOPPED,
    (STOPPED, DSTOP): STOPPED,
    (RUNNING, FSTART): RUNNING,
    (RUNNING, ISTOP): STOPPED,
    (RUNNING, DSTOP): DRAINING,
    (DRAINING, FSTART): RUNNING,
    (DRAINING, ISTOP): STOPPED,
    (DRAINING, DSTOP): DRAINING,
    (DRAINING, DRAINED): STOPPED,
}
"""The automaton of one version: what an element does in a state."""


def after(state: str, element: str) -> str:
    """Return the state an element leads to.

    >>> after(RUNNING, DSTOP), after(DRAINING, DRAINED), after(DRAINING, DSTOP)
    ('draining', 'stopped', 'draining')
    """
    return TRANSITIONS[state, element]


def product(states: Sequence[str], version: int, element: str) -> tuple[str, ...]:
    """Return the states of all versions after one of them got an element: the product of their automata.

    >>> product((RUNNING, STOPPED), 0, ISTOP), product((RUNNING, STOPPED), 1, FSTART)
    (('stopped', 'stopped'), ('running', 'running'))
    """
    return tuple(after(s, element) if k == version else s for k, s in enumerate(states))


@dataclass(frozen=True)
class Element:
    """A control element: what happens to a version, and where."""

    kind: str
    version: int
    at_us: int

    def __str__(self) -> str:
        return f"{self.kind} of version {self.version} at {self.at_us}"


@dataclass
class Life:
    """The life of one version, and what it lets out.

    Invariant: `start_us` is set when it runs or drains. A version that was stopped before its end still lets out what
    left before `stop_us`.
    """

    version: int
    state: str = STOPPED
    start_us: int | None = None
    """Rows from here on are its input."""
    drain_us: int | None = None
    """From here on only results that hold an older row leave."""
    stop_us: int | None = None
    """From here on nothing leaves."""
    stopped_by_result: bool = False
    """The stop came from the data: what leaves at that very time does not count as before it."""
    drained_by_result: bool = False
    """The same of the drain."""
    stop_by: int | None = None
    """The version to which a change was under way whose IStop this was; None: somebody else's."""
    elements: list[Element] = field(default_factory=list)

    def apply(self, kind: str, at_us: int) -> None:
        """Let an element take effect; a DStop that becomes known late drains from its own, earlier position."""
        before, self.state = self.state, after(self.state, kind)
        self.elements.append(Element(kind, self.version, at_us))
        if kind == FSTART:
            self.start_us, self.drain_us, self.stop_us = at_us, None, None
            self.stopped_by_result, self.drained_by_result, self.stop_by = False, False, None
        elif kind == DSTOP and before != STOPPED:
            if self.drain_us is None or at_us < self.drain_us:
                self.drain_us, self.drained_by_result = at_us, False
        elif kind == ISTOP and before != STOPPED:
            self.stop_us = at_us

    def to_dict(self) -> dict[str, Any]:
        """Return the life as plain values."""
        return {**vars(self), "elements": [dict(vars(element)) for element in self.elements]}

    @property
    def end_us(self) -> int:
        """Return where it was last stopped or drained."""
        return self.elements[-1].at_us if self.elements else -(2**63)

    @property
    def drained_here(self) -> bool:
        """Return whether nothing old is left here, which need not be so in other buckets: there it lives on."""
        return not self.alive and self._times_drained == 1 and ISTOP not in self._since_start

    @property
    def _since_start(self) -> list[str]:
        """Return the kinds of the elements since it was last started."""
        kinds = [element.kind for element in self.elements]
        return kinds[max((place for place, kind in enumerate(kinds) if kind == FSTART), default=0) :]

    @property
    def _times_drained(self) -> int:
        """Return 1 when a drain is over, 2 when all buckets know that."""
        return self._since_start.count(DRAINED)

    def announce_drained(self) -> list[Element]:
        """Return, once, that a drain is over, whether the data or another element have ended it."""
        if self.alive or self.drain_us is None or self._times_drained > 1:
            return []
        drained = Element(DRAINED, self.version, self.end_us)
        self.elements += [drained] * (2 - self._times_drained)
        return [drained]

    def note_drained(self, at_us: int) -> None:
        """Know that it is over in all buckets."""
        if self.drained_here:
            self.elements.append(Element(DRAINED, self.version, at_us))

    @property
    def alive(self) -> bool:
        """Return whether rows can still make it answer."""
        return self.state != STOPPED
