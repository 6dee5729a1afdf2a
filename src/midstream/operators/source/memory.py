"""Memory between micro-batches: what one gives back is kept for the next, instead of asking the system for it again.

Operators make and drop arrays of some megabytes in every micro-batch and at every hop. The C library hands such memory
back to the system at once, and the next one pays for every page of it anew, often more than for the work done in it.
"""

import ctypes
import os
from functools import cache
from pathlib import Path

from midstream.model.errors import MemoryLimitError

KEPT_BYTES = 256 << 20
"""Free memory at the end of the heap that is not handed back."""
LARGE_BYTES = 32 << 20
"""Arrays from here on are asked for by themselves, and handed back."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
"""Who has set one of these has decided."""


CHECKED_BYTES = 256 << 20
"""Less than this is asked for without looking whether it is there."""


def check_room(nbytes: int, what: str) -> None:
    """Refuse to ask for more memory than is free: the system would end the process without a word."""
    if nbytes < CHECKED_BYTES:
        return
    free = free_bytes()
    if free is not None and nbytes > free:
        raise MemoryLimitError(
            f"{what} would take {nbytes / 1e9:.1f} GB, and {free / 1e9:.1f} GB of memory are free; "
            "shorter windows, more conditions or more buckets take less"
        )


def free_bytes() -> int | None:
    """Return how much memory can still be had, of the machine and of the group the process is in; None: unknown."""
    found = []
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            found.append(int(line.split()[1]) << 10)
    most, used = (_lines(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
    if most and used and most[0].isdigit():
        found.append(int(most[0]) - int(used[0]))
    return min(found, default=None)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="ascii").splitlines()
    except OSError:
        return []


@cache
def keep_freed_memory() -> bool:
    """Ask the C library to keep what is freed, once in a process; return whether it will."""
    if any(name in os.environ for name in SETTINGS):
        return False
    ask = getattr(ctypes.CDLL(None), "mallopt", None)
    return ask is not None and bool(ask(_MMAP_THRESHOLD, LARGE_BYTES)) and bool(ask(_TRIM_THRESHOLD, KEPT_BYTES))
