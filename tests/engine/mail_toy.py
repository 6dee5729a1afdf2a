"""A toy that sends mail: a join whose buckets forward counters to each other, round and round, and note what they hear.

What a bucket has heard, and in which micro-batch, is in what it remembers: runs that end alike have had the same mail.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from midstream.engine.rows.mail import Message
from midstream.engine.rows.rows import Rows
from midstream.engine.run.contract import Framework, Kept, RunSpec
from midstream.engine.run.family import FRAMEWORK
from midstream.engine.run.sliding import SlidingRun
from midstream.live import mailbox
from midstream.plan.plan import Plan

TOY = Framework("toy")
HOPS = 3
"""How often a counter is sent on."""


class CounterRun(SlidingRun):
    """A sliding run whose buckets tell each other how many rows they have had."""

    sends_mail = True
    spec: RunSpec
    heard: list[list[Any]]
    """The micro-batch by its number here, sender, and what was sent."""
    batches: int
    _sent: list[Message]

    @staticmethod
    def _of(run: SlidingRun, spec: RunSpec, remembered: dict[str, Any]) -> "CounterRun":
        run.__class__ = CounterRun
        assert isinstance(run, CounterRun)
        run.spec, run._sent = spec, []
        run.heard, run.batches = list(remembered.get("heard", [])), remembered.get("batches", 0)
        return run

    @classmethod
    def adopt(cls, version: int, spec: RunSpec, exported: Any, remembered: dict[str, Any]) -> "CounterRun":
        return cls._of(SlidingRun.adopt(version, spec, exported, remembered), spec, remembered)

    @classmethod
    def rebuild(cls, version: int, plan: Plan, spec: RunSpec, kept: Kept) -> "CounterRun":
        run = SlidingRun.rebuild(version, plan, replace(spec, framework=Framework()), kept)
        return cls._of(run, spec, kept.remembered)

    def receive(self, mail: Sequence[Message]) -> None:
        for message in mail:
            count, hops = json.loads(message.body[:40])
            self.heard.append([self.batches, message.sender, message.kind, count])
            assert len(message.body) == 40 + count
            if hops:
                self._send(message.kind, count + 1, hops - 1)

    def take(self, rows: dict[str, Rows], upto_us: int, clock_us: int) -> None:
        super().take(rows, upto_us, clock_us)
        for alias, mine in sorted(rows.items()):
            if len(mine):
                self._send(alias, len(mine), HOPS)

    def _send(self, kind: str, count: int, hops: int) -> None:
        body = json.dumps([count, hops]).ljust(40).encode() + bytes(count)
        for step in {1 % self.spec.buckets, 2 % self.spec.buckets}:
            self._sent.append(Message((self.spec.place + step) % self.spec.buckets, kind, body, self.spec.place))

    def take_mail(self) -> list[Message]:
        sent, self._sent = self._sent, []
        return sent

    def work(self) -> None:
        super().work()
        self.batches += 1

    def remember(self) -> dict[str, Any]:
        return {**super().remember(), "heard": self.heard, "batches": self.batches}


@contextmanager
def toy() -> Iterator[None]:
    """Let the toy be a framework; messages are cut into small pieces."""
    small = mock.patch.multiple(mailbox, PIECE_BYTES=16, TABLE_BYTES=64)
    with mock.patch.dict(FRAMEWORK, {"toy": CounterRun}), small:
        yield


def heard(state: str) -> list[list[Any]]:
    """Return what a bucket has heard, by its state."""
    return list(json.loads(state)["versions"]["1"]["run"]["heard"])
