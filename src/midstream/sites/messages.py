"""What nodes say to each other about plans: reports and new operator sets, the visits of a sequence, turns.

Each message has a kind, by which messages are counted: `modification` is what the paper counts as plan modification;
`turn` is what one modification after the other costs beyond it, and who is to migrate.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

from midstream.model.errors import PlanError
from midstream.sites.cost import Rank
from midstream.sites.operator_set import OperatorSet, read_operator_set
from midstream.sites.statistics import FlowStatistics, StreamStatistics

MODIFICATION, TURN = "modification", "turn"


@dataclass(frozen=True)
class Report:
    """To the central node: the statistics of a stream have changed by more than the threshold."""

    kind: ClassVar[str] = MODIFICATION
    statistics: StreamStatistics


@dataclass(frozen=True)
class NewOperators:
    """From the central node: what a node does from now on, and which nodes migrate with it."""

    kind: ClassVar[str] = MODIFICATION
    modification: int
    operators: OperatorSet
    affected: tuple[str, ...]


@dataclass(frozen=True)
class Visit:
    """A stop on the way through one sequence that is modified. There is one visit at a time in a sequence."""

    kind: ClassVar[str] = MODIFICATION
    modification: int
    trigger: str
    """Whose statistics have changed."""
    head: str
    hop: int
    """How many visits there were before."""
    affected: tuple[str, ...]
    """Whose operators are other ones than before, as far as known."""
    step: "Step"


@dataclass(frozen=True)
class Earlier:
    """Does a stream whose cost has fallen belong where you are? If not, ask the succeeding one."""

    stream: str
    statistics: StreamStatistics


@dataclass(frozen=True)
class Compare:
    """Are you cheaper than the cheapest stream so far, at the place of `incumbent`? Then ask the succeeding one."""

    flow: FlowStatistics
    incumbent: str
    best: str
    rank: Rank


@dataclass(frozen=True)
class Chosen:
    """You belong at the place of `incumbent`."""

    flow: FlowStatistics
    incumbent: str


@dataclass(frozen=True)
class Exchange:
    """Let us swap: this is my place."""

    stream: str
    preceding: str
    succeeding: str | None


@dataclass(frozen=True)
class Exchanged:
    """My place is yours: who follows there."""

    succeeding: str | None


@dataclass(frozen=True)
class Neighbour:
    """A swap has put `stream` beside you, in place of another: change your operators, and pass this on."""

    stream: str
    preceding: str | None
    """The node before it, as long as it has not been told."""
    succeeding: str | None
    other: str
    """Whom it was swapped with."""
    given: Exchanged
    """What that one gets, once the neighbours know."""


@dataclass(frozen=True)
class Decided:
    """A place has its stream: its neighbours change their operators, then the next place is looked at."""

    stream: str
    placement: int
    flow: FlowStatistics
    """What the join gives."""
    source: str
    """Where the flow before it is produced."""
    stops: tuple[str, ...]
    """Who is told on the way."""
    succeeding: str | None


Step = Earlier | Compare | Chosen | Exchange | Neighbour | Exchanged | Decided


@dataclass(frozen=True)
class Ask:
    """To who gives turns: my statistics have changed."""

    kind: ClassVar[str] = TURN
    number: int
    """How often the node has asked, this time included."""


@dataclass(frozen=True)
class Grant:
    """It is your turn to modify the plan."""

    kind: ClassVar[str] = TURN
    modification: int


@dataclass(frozen=True)
class Finished:
    """To who has the turn: a sequence satisfies the invariant again."""

    kind: ClassVar[str] = TURN
    modification: int
    head: str
    affected: tuple[str, ...]


@dataclass(frozen=True)
class Settled:
    """From who has the turn: the new plan is complete; these nodes migrate to it together."""

    kind: ClassVar[str] = TURN
    modification: int
    affected: tuple[str, ...]


@dataclass(frozen=True)
class Done:
    """To who has modified the plan: this node has migrated."""

    kind: ClassVar[str] = TURN
    modification: int


@dataclass(frozen=True)
class Release:
    """To who gives turns: mine is over."""

    kind: ClassVar[str] = TURN
    modification: int


Body = Report | NewOperators | Visit | Ask | Grant | Finished | Settled | Done | Release


@dataclass(frozen=True)
class Message:
    """What one node says to another."""

    sender: str
    to: str
    body: Body

    @property
    def kind(self) -> str:
        """Return the kind it is counted by."""
        return self.body.kind

    @property
    def name(self) -> str:
        """Return what exactly it is: of a visit, its step."""
        return type(self.body.step if isinstance(self.body, Visit) else self.body).__name__.lower()

    def to_json(self) -> Any:
        """Return what is said as JSON holds it; who says it to whom stands on the packet."""
        return write(self.body, named=False)


def deliver_own(name: str, said: list[Message], handle: Callable[[Message], list[Message]]) -> list[Message]:
    """Let a node handle what it says to itself; return what goes to others."""
    out: list[Message] = []
    waiting = deque(said)
    while waiting:
        message = waiting.popleft()
        if message.to == name:
            waiting.extend(handle(message))
        else:
            out.append(message)
    return out


def read_message(sender: str, to: str, written: Any) -> Message:
    """Read a message that `to_json` has written."""
    try:
        return Message(sender, to, read(written))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise PlanError(f"this is no message between sites: {error!r}") from error


_CLASSES: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        StreamStatistics, FlowStatistics, Report, NewOperators, Visit, Earlier, Compare, Chosen, Exchange, Neighbour,
        Exchanged, Decided, Ask, Grant, Finished, Settled, Done, Release,
    )
}  # fmt: skip
"""What a written value can be; `register` adds what nodes keep."""


def register(cls: type[Any]) -> type[Any]:
    """Make a dataclass one that can be written and read."""
    _CLASSES[cls.__name__] = cls
    return cls


def write(value: Any, named: bool = True) -> Any:
    """Write a value of a message or a node's state: dataclasses by class and field, lists for tuples.

    What is kept names its fields; what is sent has them in order, for on a slow link names take longer than values.

    >>> chosen = Chosen(FlowStatistics(("a",), "a", 1.0, 8.0, {}, {}), "b")
    >>> write(chosen)["is"], write(chosen)["incumbent"]
    ('Chosen', 'b')
    >>> write(chosen, named=False)
    {'Chosen': [{'FlowStatistics': [['a'], 'a', 1.0, 8.0, {'map': []}, {'map': []}]}, 'b']}
    """
    if isinstance(value, OperatorSet):
        return {"is": "OperatorSet", "set": value.to_json()}
    if is_dataclass(value):
        held = {f.name: write(getattr(value, f.name), named) for f in fields(value)}
        name = type(value).__name__
        return {"is": name, **held} if named else {name: list(held.values())}
    if isinstance(value, tuple):
        return [write(v, named) for v in value]
    if isinstance(value, Mapping):
        return {"map": [[write(k, named), write(v, named)] for k, v in value.items()]}
    return value


def read(written: Any) -> Any:
    """Read a value that `write` has written."""
    if isinstance(written, list):
        return tuple(read(v) for v in written)
    if not isinstance(written, dict):
        return written
    if "map" in written:
        return {read(k): read(v) for k, v in written["map"]}
    if "is" not in written:
        ((name, values),) = written.items()
        return _CLASSES[name](*map(read, values))
    name = written["is"]
    if name == "OperatorSet":
        return read_operator_set(written["set"])
    return _CLASSES[name](**{k: read(v) for k, v in written.items() if k != "is"})
