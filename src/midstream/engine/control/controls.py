"""Control rows: what can be asked of a running query, and of its buckets, as plain values with an id each."""

import json
from typing import Any, Protocol

STOP, DRAIN, SNAPSHOT, MIGRATE = "stop", "drain", "snapshot", "migrate"
CHANGE, CONTROL, ELEMENT, MET, MAIL = "change", "control", "element", "met", "mail"
CONTROLS = {
    STOP: "stop after the micro-batch that reads it; rows that wait for their time stay in the checkpoint",
    DRAIN: "emit everything that waits, then stop",
    SNAPSHOT: "write the statistics of every bucket into the events",
    MIGRATE: "go on with another plan of the same meaning",
    CHANGE: "go on with another query",
    CONTROL: "start the query anew, stop or drain it, or abort a change; the run goes on",
    ELEMENT: "what the results of all buckets together have caused: a version starts, drains or stops",
    MET: "all buckets have come to the position of a change and know what was caused before it: it takes effect",
    MAIL: "buckets have sent messages to each other: another micro-batch comes, though no row does",
}


FORMAT = 1
"""The form of control rows that last. One that names none was written by hand, or by an older release: it is read."""


_NEEDS: dict[str, dict[str, type]] = {
    STOP: {}, DRAIN: {}, SNAPSHOT: {}, MIGRATE: {"migration": dict}, CHANGE: {"change": dict, "version": int},
    CONTROL: {"control": str}, ELEMENT: {"kind": str, "version": int, "at_us": int}, MET: {"of": str}, MAIL: {},
}  # fmt: skip
_MAY_HAVE: dict[str, type] = {"run": int, "at_us": int, "version": int, "of": str, "plan": dict}
"""What else a row may say, and of what type."""


def control_row(data: bytes) -> dict[str, Any] | None:
    """Return the control row that some bytes are, or None; one of a newer release is none.

    >>> control_row(b'{"id": "7", "do": "stop"}'), control_row(b'{"id": "7", "do": "stop", "format": 99}')
    ({'id': '7', 'do': 'stop'}, None)
    """
    try:
        row = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or not isinstance(row.get("id"), str) or not isinstance(row.get("do"), str):
        return None
    found = row.pop("format", FORMAT)
    is_ours = type(found) is int and found <= FORMAT
    return row if is_ours and _has_what_it_needs(row) else None


def _has_what_it_needs(row: dict[str, Any]) -> bool:
    needs = _NEEDS.get(row["do"])
    return (
        needs is not None
        and all(type(row.get(key)) is kind for key, kind in needs.items())
        and all(type(row[key]) is kind for key, kind in _MAY_HAVE.items() if row.get(key) is not None)
    )


class ControlSink(Protocol):
    """Takes control rows for all buckets; each is read once, at the same place in all of them."""

    def send(self, do: str, *, identity: str | None = None, once: str | None = None, **more: Any) -> str:
        """Append a control row; return its id. One sent again under the same id is read once.

        So is one without an id of its own that a micro-batch sends again which is run again: `once` says which it is.
        """

    def read(self, identity: str) -> dict[str, Any] | None:
        """Return the control row of that id, or None."""

    def last_plan(self, version: int) -> str:
        """Return the id of the last control row that has a plan of a version; empty: there is none."""


KEPT_ROWS = 64
"""Control rows that are kept after they were taken, beside the last plan of each version."""


class ControlQueue:
    """Control rows of a query in this process, until its buckets take them, and the last ones taken."""

    def __init__(self) -> None:
        self._sent = 0
        self._rows: dict[str, dict[str, Any]] = {}
        self._waiting: list[str] = []

    def send(self, do: str, *, identity: str | None = None, once: str | None = None, **more: Any) -> str:
        """Append a control row; return its id."""
        self._sent += 1
        identity = identity or f"{self._sent:08d}"
        if identity not in self._rows:
            self._rows[identity] = {"id": identity, "do": do, **more}
            self._waiting.append(identity)
        return identity

    def read(self, identity: str) -> dict[str, Any] | None:
        """Return the control row of that id, or None."""
        return self._rows.get(identity)

    def last_plan(self, version: int) -> str:
        """Return the id of the last control row that has a plan of a version."""
        rows = (row for row in reversed(self._rows.values()) if "plan" in row and row["version"] == version)
        return next((str(row["id"]) for row in rows), "")

    def take(self) -> list[dict[str, Any]]:
        """Return the rows that no bucket has read, oldest first."""
        waiting, self._waiting = self._waiting, []
        taken = [self._rows[identity] for identity in waiting]
        if len(self._rows) > 2 * KEPT_ROWS:
            plans = {row.get("version", 1): name for name, row in self._rows.items() if "plan" in row}
            needed = {*list(self._rows)[-KEPT_ROWS:], *plans.values()}
            self._rows = {name: row for name, row in self._rows.items() if name in needed}
        return taken

    def to_plain(self) -> dict[str, Any]:
        """Return all rows, and which of them no bucket has read, as plain values."""
        return {"sent": self._sent, "rows": list(self._rows.values()), "waiting": self._waiting}

    def load(self, plain: dict[str, Any]) -> None:
        """Be as `to_plain` said."""
        self._sent, self._waiting = plain["sent"], list(plain["waiting"])
        self._rows = {row["id"]: row for row in plain["rows"]}
