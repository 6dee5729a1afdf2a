"""Forgetting: changes that are long over, and the versions they went from, so that what is remembered does not grow."""

from collections.abc import Set

from midstream.change.control import ControlManager

KEPT = 8
"""So many changes are remembered however long they are over: their versions have been retired by then."""


def forget_settled(control: ControlManager, needed: Set[int] = frozenset()) -> None:
    """Forget changes that are over and that later ones have followed; only where nothing else is going on.

    What is remembered hangs together: a version goes with the last change that names it, a change with the last version
    that it has stopped. `needed` are versions that keep rows already though the change to them has not begun.
    """
    if len(control.changes) < 2 * KEPT or not control.quiet:
        return
    kept = control.changes[-KEPT:]
    named = {number for change in kept for number in (*change.old, change.new)}
    named |= {control.newest, *needed}
    lives = {n: life for n, life in control.lives.items() if life.alive or n in named}
    stoppers = {life.stop_by for life in lives.values()}
    older = [change for change in control.changes[:-KEPT] if change.new in stoppers]
    named |= {number for change in older for number in (*change.old, change.new)}
    control.lives = {n: life for n, life in control.lives.items() if n in lives or n in named}
    control.changes = [*older, *kept]
