"""What is asked of a change: the query to go to, the method, its options. A value, checked when made."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from midstream.change.lifecycle import DSTOP, FSTART, ISTOP
from midstream.model.errors import PlanError

IMMEDIATE, DELAYED_DRAIN, DRAIN = "immediate", "delayed-drain", "drain"
GRACEFUL_IMMEDIATE, GRACEFUL_DRAIN = "graceful-immediate", "graceful-drain"
GRACEFUL = (GRACEFUL_IMMEDIATE, GRACEFUL_DRAIN)
METHODS = {
    IMMEDIATE: "stop the old query at once and start the new one; what the old one had begun is lost",
    DELAYED_DRAIN: "let the old query finish what it has begun, then start the new one; rows in between are lost to it",
    DRAIN: "let the old query finish what it has begun beside the new one; nothing is lost",
    GRACEFUL_IMMEDIATE: "keep the old query until the new one answers, then stop it; output never pauses",
    GRACEFUL_DRAIN: "keep the old query until the new one answers, then let it finish; nothing is lost",
}
QUERY_ORDER, STREAM_ORDER = "query", "stream"
ORDERS = (QUERY_ORDER, STREAM_ORDER)
OPTIONS = ("method", "order", "plan", "join", "allow_schema_change", "audit")
ABORT = "abort"
CONTROLS = {"fstart": FSTART, "istop": ISTOP, "dstop": DSTOP, "abort": ABORT}
"""What can be asked of the whole query, besides a change."""


@dataclass(frozen=True)
class ChangeRequest:
    """A change to ask for. `at_us` is the event time it takes effect at; None: as soon as it is read."""

    sql: str
    method: str = DRAIN
    order: str | None = None
    at_us: int | None = None
    identity: str = ""
    plan: str | None = None
    join: str = "auto"
    allow_schema_change: bool = False
    audit: bool | None = None
    """Count also what was lost, which means computing it; None: where the run is a rehearsal."""
    version: int | None = None
    """The number its query has in the repository; None: the next one."""

    def __post_init__(self) -> None:
        for name in ("sql", "method", "order", "plan", "join"):
            value = getattr(self, name)
            if not (isinstance(value, str) or (name in ("order", "plan") and value is None)):
                raise PlanError(f"{'the query' if name == 'sql' else name} of a change must be text, not {value!r}")
        if self.method not in METHODS:
            raise PlanError(f"method is {self.method!r}; it can be {', '.join(METHODS)}")
        if self.order is not None and self.method != DRAIN:
            raise PlanError(f"order is for drain, not for {self.method}")
        if self.order is not None and self.order not in ORDERS:
            raise PlanError(f"order is {self.order!r}; it can be {', '.join(ORDERS)}")
        for name in ("allow_schema_change", "audit"):
            value = getattr(self, name)
            if not (type(value) is bool or (name == "audit" and value is None)):
                raise PlanError(f"{name} must be true or false, not {value!r}")

    @staticmethod
    def of(sql: str, options: Mapping[str, Any] | None = None, **more: Any) -> "ChangeRequest":
        """Make a request, refusing options there are none of."""
        for name in options or {}:
            if name not in OPTIONS:
                raise PlanError(f"a change has no option '{name}'; it has {', '.join(OPTIONS)}")
        return ChangeRequest(sql, **dict(options or {}), **more)

    @property
    def ordering(self) -> str | None:
        """Return in which order the output of both versions leaves while both run, or None when it never does."""
        if self.method == DRAIN:
            return self.order or STREAM_ORDER
        return STREAM_ORDER if self.method in (GRACEFUL_IMMEDIATE, GRACEFUL_DRAIN) else None

    def to_dict(self) -> dict[str, Any]:
        """Return the request as plain values."""
        return dict(vars(self))


@dataclass(frozen=True)
class ControlRequest:
    """A control element for the whole query, whatever versions of it run; or the abort of a change."""

    control: str
    at_us: int | None = None
    identity: str = ""

    def __post_init__(self) -> None:
        if str(self.control).lower() not in CONTROLS:
            raise PlanError(f"control is {self.control!r}; it can be {', '.join(CONTROLS)}")

    @property
    def element(self) -> str:
        """Return which element it is, or ABORT."""
        return CONTROLS[self.control.lower()]
