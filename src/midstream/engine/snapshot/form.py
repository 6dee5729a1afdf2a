"""Snapshot: an operator tree with its states as flat arrays and a small description of how they hang together.

    operators ──▶ take apart ──▶ description (bytes) + arrays ──▶ put together ──▶ operators

The arrays are those the states work on, not copies: whoever puts the operators together takes them over. A state shared
by two operators is still one state afterwards. A description is JSON, then the texts of values and the small arrays:
it can name registered classes (`classes.py`) and give their objects fields, and nothing else. Nothing in it is run.

    length │ {"shapes": classes with their fields, "texts": where each value is, "root": ...} │ texts, arrays
"""

import json
import re
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from inspect import getattr_static
from types import FunctionType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.engine.snapshot.classes import NAMES, STATES
from midstream.engine.snapshot.values import Own, is_value, read_value, write_value
from midstream.model.errors import StateError

Array = npt.NDArray[Any]

SMALL_BYTES = 1 << 13
"""Arrays up to this size travel inside the description."""
FORMAT = 1
_ALIGNED = 16
_HEAD_BYTES = 8
_DTYPE = re.compile(r"[<|][biuf][1248]")
_PLAIN = frozenset({bool, int, float, str, type(None)})
# What stands first in the JSON of anything that is not plain.
_SEEN, _OBJECT, _VALUE, _TUPLE, _LIST, _DICT, _SET, _FROZENSET, _DEQUE, _LARGE, _SMALL, _SCALAR, _BATCH, _DRAWS = range(
    14
)


def take_apart(operators: object) -> tuple[bytes, list[Array]]:
    """Return the description of operators and the arrays of their states; refuse what is not registered."""
    taker = _Taker()
    try:
        return taker.described(taker.write(operators)), taker.arrays
    except RecursionError as error:
        raise StateError("a plan is too deep to be described") from error


def put_together(description: bytes, arrays: Sequence[Array], own: Own | None = None) -> Any:
    """Return operators as they were when they were taken apart, working on the given arrays.

    `own` are the aggregates of the user, by name. What is no description is refused with a StateError.
    """
    try:
        length = int.from_bytes(description[:_HEAD_BYTES], "little")
        head = json.loads(description[_HEAD_BYTES : _HEAD_BYTES + length])
        if head["format"] != FORMAT:
            raise StateError(f"a state is described in format {head['format']}, and this release reads {FORMAT}")
        return _Maker(head, description[_start(_HEAD_BYTES + length) :], arrays, own or {}).read(head["root"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError, pa.ArrowException) as error:
        raise StateError(f"this describes no state: {error!r}") from error


def _start(place: int) -> int:
    """Return the next place where an array may start."""
    return -(-place // _ALIGNED) * _ALIGNED


@cache
def _is_hidden(cls: type, name: str) -> bool:
    """Tell whether a field of that name would stand before a method of the class."""
    return name.startswith("__") or isinstance(
        getattr_static(cls, name, None), FunctionType | property | classmethod | staticmethod
    )


class _Taker:
    """Writes everything but the large arrays."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self._seen: dict[int, int] = {}
        """What may be changed, by its identity, in the order it was come to."""
        self._held: list[object] = []
        """What was made on the way, so that nothing else takes its identity."""
        self._shapes: dict[tuple[type, tuple[str, ...]], int] = {}
        self._texts: dict[bytes, int] = {}
        self._places: list[tuple[int, int]] = []
        self._tail = bytearray()

    def described(self, root: Any) -> bytes:
        """Return the description."""
        shapes = [[NAMES[cls], *names] for cls, names in self._shapes]
        head = {"format": FORMAT, "shapes": shapes, "texts": self._places, "root": root}
        text = json.dumps(head, separators=(",", ":")).encode()
        gap = bytes(_start(_HEAD_BYTES + len(text)) - _HEAD_BYTES - len(text))
        return b"".join((len(text).to_bytes(_HEAD_BYTES, "little"), text, gap, self._tail))

    def _add(self, data: bytes) -> int:
        """Add data after the JSON; return where it starts."""
        at = len(self._tail)
        self._tail += data
        self._tail += bytes(-len(self._tail) % _ALIGNED)
        return at

    def write(self, value: Any) -> Any:
        """Return what stands for a value."""
        cls = type(value)
        if cls in _PLAIN:
            return value
        if cls is tuple:
            return [_TUPLE, *map(self.write, value)]
        number = self._seen.get(id(value))
        if number is not None:
            return [_SEEN, number]
        writer = _WRITERS.get(cls)
        if writer is None:
            writer = _WRITERS[cls] = _writer_of(cls)
        return writer(self, value)

    def _note(self, value: object) -> None:
        self._seen[id(value)] = len(self._seen)

    def object_(self, value: Any) -> Any:
        self._note(value)
        cls = type(value)
        state = value.__dict__
        if cls in _CHOOSY:
            state = value.__getstate__()
            self._held.append(state)
        shape = cls, tuple(state)
        place = self._shapes.setdefault(shape, len(self._shapes))
        write, plain = self.write, _PLAIN
        return [_OBJECT, place, *[v if type(v) in plain else write(v) for v in state.values()]]

    def value(self, value: Any) -> Any:
        text = write_value(value)
        place = self._texts.get(text)
        if place is None:
            place = self._texts[text] = len(self._texts)
            at = self._add(text)
            self._places.append((at, at + len(text)))
        return [_VALUE, place]

    def list_(self, value: list[Any]) -> Any:
        self._note(value)
        return [_LIST, *map(self.write, value)]

    def dict_(self, value: dict[Any, Any]) -> Any:
        self._note(value)
        out: list[Any] = [_DICT]
        for key, held in value.items():
            out.append(self.write(key))
            out.append(self.write(held))
        return out

    def set_(self, value: set[Any]) -> Any:
        self._note(value)
        return [_SET, *sorted(map(self.write, value), key=repr)]

    def frozenset_(self, value: frozenset[Any]) -> Any:
        return [_FROZENSET, *sorted(map(self.write, value), key=repr)]

    def deque_(self, value: deque[Any]) -> Any:
        self._note(value)
        return [_DEQUE, value.maxlen, *map(self.write, value)]

    def array(self, value: Array) -> Any:
        self._note(value)
        if not _DTYPE.fullmatch(value.dtype.str):
            raise StateError(f"a state holds an array of {value.dtype}, which cannot be shared")
        if value.nbytes > SMALL_BYTES:
            self.arrays.append(value)
            return [_LARGE, len(self.arrays) - 1]
        return [_SMALL, value.dtype.str, value.shape, self._add(value.tobytes())]

    def scalar(self, value: np.generic) -> Any:
        return [_SCALAR, value.dtype.str, value.tobytes().hex()]

    def batch(self, value: pa.RecordBatch) -> Any:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write_batch(value)
        data = np.frombuffer(sink.getvalue(), np.uint8)
        self._held.append(data)
        return [_BATCH, self.array(data)]

    def draws(self, value: np.random.Generator) -> Any:
        self._note(value)
        known: Any = value.bit_generator.state
        if known["bit_generator"] != "PCG64":
            raise StateError(f"a state draws by {known['bit_generator']}, which cannot be shared")
        return [_DRAWS, known["state"]["state"], known["state"]["inc"], known["has_uint32"], known["uinteger"]]


_CHOOSY = frozenset(c for c in STATES.values() if any("__getstate__" in vars(k) for k in c.__mro__[:-1]))
"""Classes that say themselves what of them is kept."""
_Writer = Callable[[_Taker, Any], Any]
_WRITERS: dict[type, _Writer] = {
    list: _Taker.list_, dict: _Taker.dict_, set: _Taker.set_, frozenset: _Taker.frozenset_, deque: _Taker.deque_,
    np.ndarray: _Taker.array, pa.RecordBatch: _Taker.batch, np.random.Generator: _Taker.draws,
}  # fmt: skip


def _writer_of(cls: type) -> _Writer:
    """Return how objects of a class are written."""
    if is_value(cls):
        return _Taker.value
    if cls in NAMES:
        return _Taker.object_
    if issubclass(cls, np.generic):
        return _Taker.scalar
    raise StateError(f"a state holds {cls.__module__}.{cls.__qualname__}, which cannot be shared")


class _Maker:
    """Reads a description, with the large arrays given."""

    def __init__(self, head: dict[str, Any], tail: bytes, arrays: Sequence[Array], own: Own) -> None:
        self._shapes = [(STATES[name], names) for name, *names in head["shapes"]]
        for cls, names in self._shapes:
            if hidden := [name for name in names if _is_hidden(cls, name)]:
                raise StateError(f"a state of {cls.__name__} has no field {hidden[0]!r}")
        self._arrays = arrays
        self._values = [read_value(tail[start:end], own) for start, end in head["texts"]]
        # One copy that may be written to: small arrays are parts of it.
        self._tail = np.frombuffer(tail, np.uint8).copy()
        self._seen: list[Any] = []

    def read(self, written: Any) -> Any:
        """Return what was written."""
        if type(written) is not list:
            return written
        kind = written[0]
        if kind == _OBJECT:
            return self._object(written)
        if kind == _TUPLE:
            return tuple([self.read(w) for w in written[1:]])
        if kind == _VALUE:
            return self._values[written[1]]
        if kind == _SEEN:
            return self._seen[written[1]]
        return _READERS[kind](self, written)

    def _note(self, made: Any) -> Any:
        self._seen.append(made)
        return made

    def _object(self, written: list[Any]) -> Any:
        cls, names = self._shapes[written[1]]
        made = self._note(cls.__new__(cls))
        read = self.read
        state = dict(zip(names, [read(w) if type(w) is list else w for w in written[2:]], strict=True))
        if hasattr(made, "__setstate__"):
            made.__setstate__(state)
        else:
            made.__dict__.update(state)
        return made

    def list_(self, written: list[Any]) -> Any:
        made: list[Any] = self._note([])
        made.extend([self.read(w) for w in written[1:]])
        return made

    def dict_(self, written: list[Any]) -> Any:
        made: dict[Any, Any] = self._note({})
        for key, held in zip(written[1::2], written[2::2], strict=True):
            found = self.read(key)
            made[found] = self.read(held)
        return made

    def set_(self, written: list[Any]) -> Any:
        made: set[Any] = self._note(set())
        made.update([self.read(w) for w in written[1:]])
        return made

    def frozenset_(self, written: list[Any]) -> Any:
        return frozenset([self.read(w) for w in written[1:]])

    def deque_(self, written: list[Any]) -> Any:
        made: deque[Any] = self._note(deque(maxlen=written[1]))
        made.extend([self.read(w) for w in written[2:]])
        return made

    def large(self, written: list[Any]) -> Any:
        return self._note(self._arrays[written[1]])

    def small(self, written: list[Any]) -> Any:
        _, dtype, shape, at = written
        kind = plain_dtype(dtype)
        count = int(np.prod(shape))
        return self._note(self._tail[at : at + count * kind.itemsize].view(kind).reshape(shape))

    def scalar(self, written: list[Any]) -> Any:
        return np.frombuffer(bytes.fromhex(written[2]), plain_dtype(written[1]))[0]

    def batch(self, written: list[Any]) -> Any:
        with pa.ipc.open_stream(pa.py_buffer(self.read(written[1]))) as reader:
            return reader.read_next_batch()

    def draws(self, written: list[Any]) -> Any:
        bits: Any = np.random.PCG64(0)
        state, inc, has, rest = map(int, written[1:])
        bits.state = {
            "bit_generator": "PCG64",
            "state": {"state": state, "inc": inc},
            "has_uint32": has,
            "uinteger": rest,
        }
        return self._note(np.random.Generator(bits))


_READERS: dict[int, Callable[[_Maker, list[Any]], Any]] = {
    _LIST: _Maker.list_, _DICT: _Maker.dict_, _SET: _Maker.set_, _FROZENSET: _Maker.frozenset_, _DEQUE: _Maker.deque_,
    _LARGE: _Maker.large, _SMALL: _Maker.small, _SCALAR: _Maker.scalar, _BATCH: _Maker.batch, _DRAWS: _Maker.draws,
}  # fmt: skip


def plain_dtype(text: str) -> np.dtype[Any]:
    """Return the type of an array by its name; only plain numbers have one here."""
    if not _DTYPE.fullmatch(text):
        raise StateError(f"there are no arrays of {text!r} in a state")
    return np.dtype(text)
