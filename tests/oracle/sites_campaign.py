"""Many drawn joins over sites, each compared with recomputing, by both updates; goes on where it was interrupted.

PYTHONPATH=src:tests:. python -m oracle.sites_campaign --seeds 0:1000 --resume build/sites.txt
"""

import argparse
import multiprocessing
import sys
import traceback
from pathlib import Path

from oracle.test_sites import check_script

FIRST = 10_000
"""Where the seeds of `test_sites_equal_recomputing` begin."""


def run_one(seed: int) -> tuple[int, str]:
    """Run a seed; return it with what was wrong, or nothing."""
    try:
        check_script(FIRST + seed)
    except Exception:
        return seed, traceback.format_exc()
    return seed, ""


def main() -> int:
    """Run the seeds that are asked for; return how many of them failed, as an exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:1000", help="from:to")
    parser.add_argument("--resume", type=Path, help="a file of the seeds that have passed")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    first, end = map(int, given.seeds.split(":"))
    passed = set(map(int, given.resume.read_text().split())) if given.resume and given.resume.exists() else set[int]()
    left = [seed for seed in range(first, end) if seed not in passed]
    failed = 0
    with multiprocessing.Pool(given.processes) as pool:
        for done, (seed, wrong) in enumerate(pool.imap_unordered(run_one, left), 1):
            if wrong:
                failed += 1
                print(f"seed {seed}:\n{wrong}", file=sys.stderr, flush=True)
            elif given.resume:
                with given.resume.open("a") as file:
                    file.write(f"{seed}\n")
            if done % 50 == 0:
                print(f"{done + len(passed)} of {end - first} seeds, {failed} failed", flush=True)
    print(f"{end - first} seeds, {failed} failed")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
