"""The planner of a node: what it says about plans, and which operator set it is to migrate to.

    rows ──▶ meter ──▶ statistics changed by more than the threshold ──▶ messages about plans ──▶ packets
    packets ──▶ messages ──▶ a new operator set, and who migrates with it ──▶ node ──▶ done

How a plan is modified is for `centralized.py` and `distributed.py`. Every packet says how far modifications have come,
so that one never takes effect before another that went before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from midstream.model.time import NEVER
from midstream.sites.messages import Message, read, read_message, write
from midstream.sites.meter import Meter
from midstream.sites.migration import Migration
from midstream.sites.packet import Packet
from midstream.sites.partials import Part, Partials
from midstream.sites.statistics import StreamStatistics
from midstream.sites.window import NodeWindow


class Modifying(Protocol):
    """A node's part in modifying plans: a machine that knows no transport."""

    @property
    def migration(self) -> Migration | None:
        """Return what is to be done until `migrated` is called."""

    def observe(self, statistics: StreamStatistics) -> list[Message]:
        """Take what the statistics of the node's stream are now."""

    def handle(self, message: Message) -> list[Message]:
        """Take a message; return what there is to say."""

    def migrated(self) -> list[Message]:
        """Go on with the new operator set alone."""

    def export(self) -> Any:
        """Return the state as JSON holds it."""


@dataclass(frozen=True)
class Triggered:
    """Statistics that were reported because they had changed: when, and what they are."""

    at_us: int
    statistics: StreamStatistics


class Planner:
    """The planner of one node. State: that of its machine, what it has measured, the position it knows of."""

    def __init__(self, name: str, machine: Modifying, meter: Meter | None) -> None:
        self.name, self.machine, self.meter = name, machine, meter
        self.after_us = NEVER
        """The position of the last modification it has heard of."""
        self.triggered: list[Triggered] = []
        """What was reported, for who drives the node to take."""
        self._begun = 0

    def on_rows(self, part: Part, heads: Partials, window: NodeWindow, upto_us: int) -> list[Packet]:
        """Measure new rows of the node's stream; return what there is to say about them."""
        found = None if self.meter is None else self.meter.on_rows(part, heads, window, upto_us)
        if found is None:
            return []
        said = self.machine.observe(found)
        if said:
            self.triggered.append(Triggered(upto_us, found))
        return self._packets(said)

    def on_packet(self, packet: Packet) -> list[Packet]:
        """Take what another node says about plans."""
        self.after_us = max(self.after_us, packet.plain.get("after", NEVER))
        return self._packets(self.machine.handle(read_message(packet.sender, packet.to, packet.plain["said"])))

    def begin(self) -> Migration | None:
        """Return a migration that is to begin, once."""
        migration = self.machine.migration
        if migration is None or migration.modification <= self._begun:
            return None
        self._begun = migration.modification
        return migration

    def migrated(self, position_us: int) -> list[Packet]:
        """Report that the node has another operator set from a position on."""
        self.after_us = max(self.after_us, position_us)
        return self._packets(self.machine.migrated())

    def _packets(self, said: Sequence[Message]) -> list[Packet]:
        after = {} if self.after_us == NEVER else {"after": self.after_us}
        return [Packet(m.kind, self.name, m.to, {"said": m.to_json(), **after}) for m in said]

    def export(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        """Return what it remembers as plain values and tables."""
        plain: dict[str, Any] = {"machine": self.machine.export(), "after": self.after_us, "begun": self._begun}
        if self.meter is None:
            return plain, []
        plain["meter"], table = self.meter.export()
        plain["measured"] = write(self.meter.known)
        return plain, [table]

    def load(self, plain: dict[str, Any], tables: Sequence[pa.RecordBatch]) -> None:
        """Remember what `export` has returned, but for the machine."""
        self.after_us, self._begun = plain["after"], plain["begun"]
        if self.meter is not None:
            self.meter.load(plain["meter"], tables[0], read(plain["measured"]))
