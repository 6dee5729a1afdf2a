"""A part of the kill campaign: queries that live through kills of every kind write what an undisturbed run writes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from seeds import some

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CAMPAIGN = Path(__file__).with_name("kill_campaign.py")
SEEDS = range(600)
LIVES = 2
"""How many of them a run takes: two kinds of queries of six, the next two at the next commit."""
LEAST = 5
"""Faults that happen in a life, if it was drawn well."""


def test_kills_change_nothing(tmp_path: Path) -> None:
    seeds = some(SEEDS, LIVES)[: 20 * LIVES]
    told, resume = ",".join(map(str, seeds)), tmp_path / "kills.jsonl"
    paths = os.pathsep.join([str(CAMPAIGN.parent.parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(CAMPAIGN), "--seeds", told, "--resume", str(resume)]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=1200 * len(seeds),
        start_new_session=True,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    lives = [json.loads(line) for line in resume.read_text().splitlines()]
    assert [life["seed"] for life in lives] == seeds
    assert all(life["rows"] and life["looks"] for life in lives)
    assert sum(len(life["done"]) for life in lives) >= LEAST * len(seeds)
