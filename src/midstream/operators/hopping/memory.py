"""Memory between batches: what one hop gives back is kept for the next, instead of asking the system for it again.

Operators make and drop arrays of some megabytes at every hop. The C library hands such memory back to the system at
once, and the next hop pays for every page of it anew, often more than for the work done in it.
"""

import ctypes
import os
from functools import cache

KEPT_BYTES = 256 << 20
"""Free memory at the end of the heap that is not handed back."""
LARGE_BYTES = 32 << 20
"""Arrays from here on are asked for by themselves, and handed back."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
"""Who has set one of these has decided."""


@cache
def keep_freed_memory() -> bool:
    """Ask the C library to keep what is freed, once in a process; return whether it will."""
    if any(name in os.environ for name in SETTINGS):
        return False
    ask = getattr(ctypes.CDLL(None), "mallopt", None)
    return ask is not None and bool(ask(_MMAP_THRESHOLD, LARGE_BYTES)) and bool(ask(_TRIM_THRESHOLD, KEPT_BYTES))
