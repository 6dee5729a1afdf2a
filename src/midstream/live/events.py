"""Events: what has happened to a query, one line each, over all its runs.

A micro-batch that is run again after a crash notes the same events: they are there once. So is the end of a change,
however many runs know of it. When the file has grown long
it becomes `events.old.jsonl`, in place of the one before.
"""

import contextlib
import json
from pathlib import Path
from typing import Any

from midstream.engine.world import World
from midstream.model.failpoint import reach
from midstream.model.format import check_format
from midstream.model.names import is_moment
from midstream.model.secrets import masked

FORMAT = 1
"""The form of events: the first line of a file names it."""
MOST_BYTES = 8 << 20
"""When the file of events is longer, another one is begun."""
MOST_OF_ONE = 1 << 20
"""A file may be so much longer when all of it is of one micro-batch, and of runs that fail in it."""
LOOKS_BACK = 400
"""Events among which one that comes again is looked for."""
SAME = ("event", "batch", "identity", "id", "state", "stream")
"""What makes two events of a micro-batch the same."""
Event = dict[str, Any]


class EventLog:
    """The events of one query."""

    def __init__(self, file: Path, world: World, most_bytes: int = MOST_BYTES) -> None:
        self._file = file
        self._most_bytes = most_bytes
        self._world = world
        self._noted: list[tuple[Any, ...]] | None = None
        """The last events of micro-batches, as far as they matter; None: nobody has looked."""
        self._bytes = 0
        self._states: dict[tuple[str, str | None], str] = {}
        """The last state that was noted of whatever has one: a run that begins reads all of them once more."""

    def add(self, event: Event) -> None:
        """Append an event, durably; one of a micro-batch that was noted before is not noted again."""
        noted = self._look() if self._noted is None else self._noted
        same, of = tuple(event.get(key) for key in SAME), (event["event"], event.get("identity"))
        if "batch" in event and (same in noted or ("state" in event and self._states.get(of) == event["state"])):
            return
        reach(f"event {event['event']}")
        line = json.dumps(masked({"at": self._world.clock.now_ns() / 1e9, **event})).encode() + b"\n"
        if self._is_full(event, noted):
            self._world.files.move(self._file, self.old)
            self._bytes = 0
        if not self._bytes:
            line = json.dumps({"format": FORMAT}).encode() + b"\n" + line
        try:
            self._world.files.append(self._file, line)
        except OSError:  # a part of the line may be there
            self._noted = None
            raise
        reach(f"event {event['event']} noted")
        self._bytes += len(line)
        noted.append(same)
        del noted[:-LOOKS_BACK]
        if "state" in event:
            self._states.pop(of, None)
            self._states[of] = event["state"]
            for older in list(self._states)[:-LOOKS_BACK]:
                del self._states[older]

    def _is_full(self, event: Event, noted: list[tuple[Any, ...]]) -> bool:
        """Return whether another file is begun: with the next micro-batch, so that all of this one is found again."""
        if self._bytes <= self._most_bytes:
            return False
        last = next((batch for _, batch, *_ in reversed(noted) if batch is not None), None)
        return event.get("batch", last) != last or self._bytes > self._most_bytes + MOST_OF_ONE

    def _look(self) -> list[tuple[Any, ...]]:
        with contextlib.suppress(FileNotFoundError):
            written = self._world.files.read(self._file)
            self._bytes = len(written)
            if written and not written.endswith(b"\n"):  # a line was cut short by a crash
                self._world.files.append(self._file, b"\n")
        events = self.all()
        self._noted = [tuple(event.get(key) for key in SAME) for event in events[-LOOKS_BACK:]]
        self._states = {(e["event"], e.get("identity")): e["state"] for e in events if "state" in e}
        return self._noted

    @property
    def old(self) -> Path:
        """Return where the events before those of the file are."""
        return self._file.with_name("events.old.jsonl")

    def all(self) -> list[Event]:
        """Return all events, oldest first; a line cut short by a crash, or without sense, is left out."""
        events = []
        for file in (self.old, self._file):
            with contextlib.suppress(FileNotFoundError):
                for line in self._world.files.read(file).splitlines():
                    with contextlib.suppress(ValueError, RecursionError):
                        read = json.loads(line)
                        if isinstance(read, dict) and "event" in read:
                            events += [read] if _makes_sense(read) else []
                        elif isinstance(read, dict) and "format" in read:
                            check_format(f"{file}", read["format"], FORMAT)
        return events


def _makes_sense(event: Event) -> bool:
    texts = (
        event["event"],
        *(event[key] for key in ("identity", "id", "state", "stream") if event.get(key) is not None),
    )
    return is_moment(event.get("at", 0)) and all(isinstance(text, str) for text in texts)
