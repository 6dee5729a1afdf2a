"""A change from the moment it takes effect: what it waits for, and what is counted of it."""

import time
from dataclasses import dataclass, field

from midstream.change.account import Account
from midstream.change.delayed_drain import DelayedDrainChange
from midstream.change.drain import DrainChange
from midstream.change.graceful_drain import GracefulDrainChange
from midstream.change.graceful_immediate import GracefulImmediateChange
from midstream.change.immediate import ImmediateChange
from midstream.change.method import Method
from midstream.change.record import FINISHED, OPEN, ChangeRecord
from midstream.change.reference import Reference
from midstream.change.request import (
    DELAYED_DRAIN,
    DRAIN,
    GRACEFUL_DRAIN,
    GRACEFUL_IMMEDIATE,
    IMMEDIATE,
    ChangeRequest,
)

METHOD_OF: dict[str, Method] = {
    IMMEDIATE: ImmediateChange(),
    DELAYED_DRAIN: DelayedDrainChange(),
    DRAIN: DrainChange(),
    GRACEFUL_IMMEDIATE: GracefulImmediateChange(),
    GRACEFUL_DRAIN: GracefulDrainChange(),
}


@dataclass
class Change:
    """A change that has taken effect."""

    request: ChangeRequest
    record: ChangeRecord
    old: tuple[int, ...]
    new: int
    position_us: int
    account: Account
    audit: bool
    began: float = field(default_factory=time.perf_counter)
    waits_for_result: bool = False
    waits_for_drain: bool = False
    reference: Reference | None = None
    """Of a delayed drain that is audited: what the new version would have given, started at once."""
    followed: bool = False
    """It is over, and nothing that this bucket emits matters to it any more."""

    @property
    def method(self) -> Method:
        """Return what turns it into elements."""
        return METHOD_OF[self.request.method]

    @property
    def open(self) -> bool:
        """Return whether it is not over."""
        return self.record.state in OPEN

    @property
    def pending(self) -> bool:
        """Return whether it has elements to come that the data cause."""
        return self.waits_for_result or self.waits_for_drain

    @property
    def wants_reference(self) -> bool:
        """Return whether the new version is to run from the position on, only to be compared with."""
        return self.reference is not None and not self.reference.over

    @property
    def counts(self) -> bool:
        """Return whether what leaves is to be counted."""
        state = self.record.state
        return self.open or (state == FINISHED and self.account.listens and not self.followed)

    def end(self, state: str, at_us: int) -> None:
        """Be over, from a position on."""
        record = self.record
        record.state, record.ended_us = state, at_us
        self.waits_for_drain = self.waits_for_result = False
        if state == FINISHED:
            self.account.correct(at_us)
        else:
            self.account.old_prints.clear()
            self.account.new_prints.clear()
            self.account.uncertain = []
        self.note_overlap(at_us)

    def note_overlap(self, until_us: int) -> None:
        """Note how long both versions ran."""
        record = self.record
        if record.started_us is not None:
            record.two_versions_us = max(0, until_us - record.started_us)
            record.two_versions_ms = (time.perf_counter() - self.began) * 1000 if record.two_versions_us else 0.0

    def end_reference(self) -> None:
        """Compare no further: another element says what the new version is from here on."""
        if self.reference is not None and not self.reference.over:
            self.reference.over = True
            self.account.lose(self.reference.settle())
