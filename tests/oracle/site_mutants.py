"""Mutants of joins over sites: what would go wrong unseen if the oracle did not find it.

PYTHONPATH=src:tests:. python -m oracle.site_mutants       # each with the seed that finds it
"""

import contextlib
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

from midstream.kernels.arrays import Vector
from midstream.model.time import FOREVER, NEVER
from midstream.sites import simulation
from midstream.sites.courier import Courier, Frame
from midstream.sites.epochs import Epochs
from midstream.sites.node import Node
from midstream.sites.packet import Packet
from midstream.sites.partials import Part
from midstream.sites.results import QueryNode
from midstream.sites.simulation import Place, Simulation
from midstream.sites.two_phase import TwoPhase
from midstream.sites.window import NodeWindow
from oracle.test_sites import check_nodes, check_script

Mutant = Callable[[], contextlib.AbstractContextManager[Any]]


def own_positions() -> contextlib.AbstractContextManager[Any]:
    """Every node goes over to its new operators where it stands, instead of all at the same position."""
    return mock.patch.object(TwoPhase, "agreed_us", property(lambda migration: migration.worked_us))


def nobody_holds_still() -> contextlib.AbstractContextManager[Any]:
    """Nodes go on working after they have said how far they are."""
    return mock.patch.object(Node, "_limit_us", FOREVER)


@contextlib.contextmanager
def windows_begin_empty() -> Iterator[None]:
    """A node is ready without the rows that its new windows hold elsewhere."""
    copy = Node._on_window_copy

    def _on_window_copy(self: Node, message: Packet) -> None:
        assert message.table is not None
        copy(self, Packet(message.kind, message.sender, message.to, message.plain, message.table.slice(0, 0)))

    patched = {**sys.modules["midstream.sites.node"]._MEANING, "window copy": _on_window_copy}
    with mock.patch.object(sys.modules["midstream.sites.node"], "_MEANING", patched):
        yield


@contextlib.contextmanager
def copies_are_not_followed() -> Iterator[None]:
    """A node gets a copy of a window, and no further rows until its epoch begins."""
    request = Node._on_window_request

    def _on_window_request(self: Node, message: Packet) -> None:
        request(self, message)
        self.prepared.clear()

    patched = {**sys.modules["midstream.sites.node"]._MEANING, "window request": _on_window_request}
    with mock.patch.object(sys.modules["midstream.sites.node"], "_MEANING", patched):
        yield


def old_heads_are_forgotten() -> contextlib.AbstractContextManager[Any]:
    """Rows go when the newest operators need them no more, although older heads are still on their way."""

    def _floors(self: Node) -> Iterator[tuple[str, int]]:
        latest = self.epochs.latest
        return iter({j.stream: latest.reached_us(j.flow) for j in latest.joins}.items())

    return mock.patch.object(Node, "_floors", _floors)


def epochs_end_early() -> contextlib.AbstractContextManager[Any]:
    """An epoch is over when the own stream has passed it."""

    def forget_done(self: Epochs, upto_us: int) -> None:
        while len(self._all) > 1 and self._all[1].start_us <= upto_us:
            self._all.pop(0)

    return mock.patch.object(Epochs, "forget_done", forget_done)


def ties_by_chance() -> contextlib.AbstractContextManager[Any]:
    """Rows of the same time count as later than a head, whatever stream they are of."""

    def heads_numbered(self: NodeWindow, head: str, part: Part) -> Vector:
        return np.asarray(2 * (self._times.base + np.searchsorted(self._times.view(), part.times)) - 1, np.int64)

    return mock.patch.object(NodeWindow, "heads_numbered", heads_numbered)


def windows_are_not_waited_for() -> contextlib.AbstractContextManager[Any]:
    """A head probes a window whose rows have not all come."""
    covered = mock.patch.object(
        NodeWindow,
        "covered_us",
        property(lambda w: FOREVER if sys._getframe(1).f_code.co_name == "<genexpr>" else w.__dict__.get("c", NEVER),
                 lambda w, us: w.__dict__.__setitem__("c", us)),
        create=True,
    )  # fmt: skip
    return covered


@contextlib.contextmanager
def results_leave_at_once() -> Iterator[None]:
    """Results leave when those of one stream are complete."""
    with mock.patch.object(QueryNode, "complete_us", property(lambda node: max(node._reached.values()))):
        yield


def frames_as_they_come() -> contextlib.AbstractContextManager[Any]:
    """A frame that comes again, or before its turn, is taken as it comes."""
    on_frame = Courier.on_frame

    def as_it_comes(self: Courier, frame: Frame, now_us: int) -> list[Packet]:
        on_frame(self, frame, now_us)
        return [] if frame.packet is None else [frame.packet]

    return mock.patch.object(Courier, "on_frame", as_it_comes)


@contextlib.contextmanager
def said_before_kept() -> Iterator[None]:
    """What a site says leaves before the state that said it is kept; some sites then never come to rest."""
    keep, rnd = Simulation._keep, random.Random(0)

    def _keep(self: Simulation, place: Place) -> None:
        if place.kept is None or rnd.random() < 0.5:
            keep(self, place)

    with mock.patch.object(Simulation, "_keep", _keep), mock.patch.object(simulation, "MOST_EVENTS", 20_000):
        yield


def check_deaths(seed: int) -> None:
    """Run a script in which sites die."""
    check_script(seed, 3, 4, deaths=6)


MUTANTS: dict[Mutant, Callable[[int], None]] = {
    own_positions: check_nodes,
    nobody_holds_still: check_nodes,
    windows_begin_empty: check_nodes,
    copies_are_not_followed: check_nodes,
    old_heads_are_forgotten: check_nodes,
    epochs_end_early: check_nodes,
    ties_by_chance: check_nodes,
    windows_are_not_waited_for: check_nodes,
    results_leave_at_once: check_nodes,
    frames_as_they_come: check_script,
    said_before_kept: check_deaths,
}
"""Each with the check that finds it."""


def found_by(mutant: Mutant, seeds: range) -> int | None:
    """Return the first seed that finds a mutant, or None."""
    for seed in seeds:
        with mutant():
            try:
                MUTANTS[mutant](seed)
            except Exception:
                return seed
    return None


if __name__ == "__main__":
    for each in MUTANTS:
        print(each.__name__, found_by(each, range(int(sys.argv[1]) if len(sys.argv) > 1 else 100)), flush=True)
