"""Run seeds of the simulation: `python -m simulation --seeds 0:10000 --resume build/simulation.txt`.

Prints what is found, and a smaller case that shows it. With `--resume` seeds that were run before are passed over.
"""

import argparse
import sys
import time
from pathlib import Path

from simulation.faults import case_of, retimed_of, two_drivers_of
from simulation.shrink import failure_of, shrunk

EVERY = 50
"""Seeds between two lines about how far it has come."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", default="0:200", help="one seed, or first:after the last")
    parser.add_argument("--two-drivers", action="store_true", help="drivers lose their locks, and go on")
    parser.add_argument("--retimed", action="store_true", help="runs are started with other timings")
    parser.add_argument("--resume", type=Path, help="a file that says which seeds were run, and what was found")
    parser.add_argument("--shrink", type=int, default=200, help="how many smaller cases are tried; 0: none")
    asked = parser.parse_args()
    first, _, last = asked.seeds.partition(":")
    done = _done(asked.resume)
    seeds = [n for n in range(int(first), int(last) if last else int(first) + 1) if n not in done]
    found, started_s, cpu_s = 0, time.monotonic(), time.process_time()
    for count, seed in enumerate(seeds, 1):
        draw = two_drivers_of if asked.two_drivers else retimed_of if asked.retimed else case_of
        case = draw(seed)
        failure = failure_of(case)
        if failure is not None:
            found += 1
            print(f"seed {seed}: {failure}\n  {', '.join(map(str, case.faults))}", flush=True)
            if asked.shrink:
                small = shrunk(case, most=asked.shrink)
                print(f"--- shrunk\n{small}\n{failure_of(small)}\n---", flush=True)
        if asked.resume:
            with open(asked.resume, "a", encoding="utf-8") as file:
                file.write(f"{seed} {'ok' if failure is None else failure.splitlines()[0]}\n")
        if count % EVERY == 0 or count == len(seeds):
            took_s, used_s = time.monotonic() - started_s, time.process_time() - cpu_s
            print(
                f"{count} of {len(seeds)} seeds, {found} found, {took_s / count:.2f} s each "
                f"({used_s / count:.2f} s of a core)",
                flush=True,
            )
    return 1 if found else 0


def _done(file: Path | None) -> set[int]:
    if file is None or not file.exists():
        return set()
    return {int(line.split()[0]) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()}


if __name__ == "__main__":
    sys.exit(main())
