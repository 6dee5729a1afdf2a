"""The simulated disk does what a disk does, and a power cut takes no more than it may."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from midstream.engine.world import Files
from midstream.local.disk import Disk
from simulation.machine import HOME, Fault, Machine
from simulation.process import Crash


def answer(do: Callable[[], Any]) -> Any:
    """Return what a method returns, or the sort of its failure."""
    try:
        return do()
    except OSError as failure:
        return type(failure)


def some_calls(files: Files, home: Path, rnd: random.Random) -> list[Any]:
    """Do the same things to files, whatever they are; return all answers."""
    out: list[Any] = []
    for _ in range(60):
        a, b = (home / rnd.choice(["x", "y", "f/x", "f/y", "f/g/x"]) for _ in range(2))
        data = b"%d" % rnd.randrange(100)
        folder = home / rnd.choice(["f", "f/g"])
        calls: list[Callable[[], Any]] = [
            lambda a=a, data=data: files.write(a, data, rnd.random() < 0.5),
            lambda a=a, data=data: files.append(a, data),
            lambda a=a, b=b: files.move(a, b),
            lambda a=a, b=b: files.link(a, b),
            lambda a=a: files.remove(a),
            lambda folder=folder: files.make_folder(folder),
            lambda folder=folder: files.remove_folder(folder),
        ]
        out.append(answer(rnd.choices(calls, [5, 3, 3, 2, 2, 3, 1])[0]))
        out += [answer(lambda a=a: files.read(a)), files.exists(b), files.names(home), files.names(home / "f")]
    return out


@pytest.mark.parametrize("seed", range(12))
def test_it_does_what_this_disk_does(seed: int, tmp_path: Path) -> None:
    simulated = Machine("disk").process("one").world.files
    assert some_calls(simulated, HOME, random.Random(seed)) == some_calls(Disk(), tmp_path, random.Random(seed))


@pytest.mark.parametrize("seed", range(40))
def test_what_is_put_outlasts_a_power_cut(seed: int) -> None:
    """At whatever step the power goes, a file is as it was before or as it is now, and what was done stays done."""
    machine = Machine(f"cut {seed}", [Fault(3 + seed, "power cut")])
    process, folder = machine.process("one"), HOME / "deep" / "deeper"
    put = -1
    try:
        process.world.files.make_folder(folder)
        for put in range(9):
            process.world.put(folder / "file", b"%d" % put)
    except Crash:
        put -= 1
    files = machine.process("two").world.files
    held = files.read(folder / "file") if files.exists(folder / "file") else b"-1"
    assert int(held) in (put, put + 1)


def test_locks_go_with_their_process() -> None:
    machine = Machine("locks")
    first, second = machine.process("one"), machine.process("two")
    assert first.world.files.lock(HOME / "lock") is not None
    assert second.world.files.lock(HOME / "lock") is None
    first.kill()
    assert second.world.files.lock(HOME / "lock") is not None
