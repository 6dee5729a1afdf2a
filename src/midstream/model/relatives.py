"""Relatives: the processes of one run on Spark, for failpoints that end another one than their own. Linux only.

    driver (Python) ──▶ jvm ──▶ daemon (Python) ──▶ workers (forked)        all of one session

They are told apart by what they run. A test gives every run a session of its own (`start_new_session`).
"""

import os
from dataclasses import dataclass
from pathlib import Path

SELF, ALL = "self", "all"
ROLES = ("driver", "jvm", "daemon", "worker")
_DAEMON = b"pyspark.daemon"


@dataclass(frozen=True)
class Process:
    """A process as the system has it."""

    pid: int
    parent: int
    begun: int
    runs: bytes
    """Its command line."""
    state: str = "S"
    """T: it is halted."""


def found(whom: str, mark: str) -> list[int]:
    """Return the process that plays a role beside this one, the one begun last of several; none where there is none.

    This process where it plays the role itself. `all`: whoever plays any, this one last. `mark`: an environment
    variable that drivers were started with.
    """
    mine = os.getpid()
    if whom == SELF:
        return [mine]
    if whom not in (*ROLES, ALL):
        raise ValueError(f"'{whom}' is none of {SELF}, {', '.join(ROLES)}, {ALL}")
    processes = everybody()
    roles = {p.pid: role(p, processes.get(p.parent), mark) for p in processes.values()}
    if whom == ALL:
        return sorted((pid for pid, plays in roles.items() if plays is not None), key=lambda pid: pid == mine)
    playing = sorted((pid for pid, plays in roles.items() if plays == whom), key=lambda pid: processes[pid].begun)
    return [mine] if mine in playing else playing[-1:]


def everybody() -> dict[int, Process]:
    """Return the processes of this session, by their ids."""
    mine = os.getsid(0)
    read = (_read(int(name), mine) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in read if process is not None}


def role(process: Process, parent: Process | None, mark: str) -> str | None:
    """Return what part a process plays.

    >>> java, daemon = Process(1, 0, 0, b"java -cp"), Process(2, 1, 0, b"python -m pyspark.daemon")
    >>> role(java, None, ""), role(daemon, java, ""), role(daemon, daemon, "")
    ('jvm', 'daemon', 'worker')
    """
    command = Path(os.fsdecode(process.runs.split()[0])).name if process.runs.split() else ""
    if command == "java":
        return "jvm"
    if _DAEMON in process.runs:
        return "worker" if parent is not None and _DAEMON in parent.runs else "daemon"
    if not command.startswith("python") or b"pyspark." in process.runs:
        return None
    return "driver" if _started_with(process.pid, mark) else None


def _started_with(pid: int, variable: str) -> bool:
    """Return whether a process was started with an environment variable."""
    try:
        return f"\0{variable}=".encode() in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def _read(pid: int, session: int) -> Process | None:
    """Return a process of a session, or None: it is of another one, or gone, or dead and not yet buried."""
    try:
        state, parent, _, its, *more = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if int(its) != session or state == "Z":
            return None
        runs = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except (OSError, ValueError):
        return None
    return Process(pid, int(parent), int(more[15]), runs, state)
