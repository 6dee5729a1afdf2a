"""Run a system in a process of its own, on two cores, and watch its memory and its checkpoint from outside."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers_systems.job import Job, Skipped

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / "build" / "peers"
CORES = 2
LOOK_EVERY_S = 0.5
CHECKPOINT_EVERY_S = 2.0
INSTALL_LIMIT_S = 900


@dataclass(frozen=True)
class Watched:
    """What a system said, and what was seen of it."""

    said: dict[str, Any]
    peak_bytes: int
    checkpoint_bytes: int
    wall_s: float


def environment(name: str, requirement: str) -> Path:
    """Return the Python of a system's own virtual environment, which is built the first time and kept in `build/`."""
    home = ENVIRONMENTS / f"{name}-venv"
    python, ready = home / "bin" / "python", home / "ready"
    if ready.exists() and ready.read_text(encoding="utf-8") == requirement:
        return python
    home.mkdir(parents=True, exist_ok=True)
    venv.create(home, clear=True, with_pip=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement]
    try:
        done = subprocess.run(install, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Skipped(f"{requirement} could not be installed within {INSTALL_LIMIT_S} s") from error
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise Skipped(f"{requirement} could not be installed: {errors[-1] if errors else 'pip failed'}")
    ready.write_text(requirement, encoding="utf-8")
    return python


def launch(job: Job, module: str, python: Path, limit_s: float) -> Watched:
    """Run a system's module with its job to the end."""
    job.scratch.mkdir(parents=True)
    job.checkpoint.mkdir()
    log = Path(job.folder) / "log.txt"
    command = [str(python), "-m", f"benchmarks.peers_systems.{module}", str(job.write())]
    # The two cores are set here and inherited, so that every thread and worker of the system keeps to them.
    command = [sys.executable, "-c", _ON_TWO_CORES, *command]
    variables = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", "TMPDIR": str(job.scratch), **_java()}
    started = time.perf_counter()
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=job.scratch, env=variables, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            peak, checkpoint = _watch(process, job.checkpoint, started + limit_s)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    wall = time.perf_counter() - started
    if job.said.exists():
        said = json.loads(job.said.read_text(encoding="utf-8"))
    elif wall >= limit_s:
        said = {"skipped": f"it was not done within {limit_s:.0f} s"}
    else:
        said = {"skipped": f"it failed: {_last_words(log)}"}
    return Watched(said, peak, checkpoint, wall)


# prctl(PR_SET_PDEATHSIG, SIGKILL): a system does not outlive this process, however that ends.
_ON_TWO_CORES = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9);"
    f" os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:{CORES}]);"
    " os.execv(sys.argv[1], sys.argv[1:])"
)


def _watch(process: subprocess.Popen[bytes], checkpoint: Path, until: float) -> tuple[int, int]:
    """Return the most memory of the process tree, and the checkpoint's size at the end.

    Flink removes its checkpoints when a job has ended; then the largest size seen stands.
    """
    peak, largest, looked = 0, 0, 0.0
    while process.poll() is None and time.perf_counter() < until:
        peak = max(peak, sum(_resident(pid) for pid in _tree(process.pid)))
        if time.perf_counter() - looked > CHECKPOINT_EVERY_S:
            largest, looked = max(largest, folder_bytes(checkpoint)), time.perf_counter()
        time.sleep(LOOK_EVERY_S)
    return peak, folder_bytes(checkpoint) or largest


def _tree(root: int) -> list[int]:
    """Return a process and all below it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, []))
    return found


def _resident(pid: int) -> int:
    """Return the resident memory of a process; a page shared by n processes counts 1/n in each (PSS)."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def folder_bytes(folder: Path) -> int:
    """Return the size of all files below a folder."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(place, name)).st_size
    return total


def _java() -> dict[str, str]:
    """Return the home of Java as the set-up finds it."""
    found = subprocess.run([ROOT / "tools" / "ensure-java", "--home"], capture_output=True, text=True, check=False)
    return {"JAVA_HOME": found.stdout.strip()} if found.stdout.strip() else {}


def _last_words(log: Path) -> str:
    """Return the line of a log that most likely says what went wrong."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "Exception" in line]
    return (errors or lines or ["no word"])[-1][:300]
