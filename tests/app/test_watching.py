"""What programs are told of queries: health by exit codes, metrics for Prometheus, and the panel that shows them."""

import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from app.pretended import BATCH, tell
from prometheus_client.parser import text_string_to_metric_families

from midstream.live.checkpoint import Checkpoint

PANEL = Path(__file__).parents[2] / "docs" / "grafana.json"


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def busy(held: Checkpoint, **more: object) -> None:
    batch = {**BATCH, "released_us": int((time.time() - 100) * 1e6), "silent": ["c"]}
    batch["held_by"] = {"stream": "b", "lag_us": 2_500_000, "silent_us": 0}
    tell(held, "running", last_batch=batch, version=2, migrations=[{}], changes=[], **more)


def test_health_is_an_exit_code_and_a_sentence(checkpoint: Checkpoint, midstream) -> None:
    busy(checkpoint)
    assert midstream("health", checkpoint.folder) == (0, "pairs is well\n", "")
    code, out, _ = midstream("health", checkpoint.folder, "--behind", 60, "--waiting", 2, "--slow", 0.5, "--quiet", 60)
    assert code == 1
    assert "pairs is not well: event time is 1 min 40 s behind the clock; 3 rows wait for b" in out
    assert "its last micro-batch took 0.84 s" in out
    assert midstream("health", checkpoint.folder, "--behind", 600, "--waiting", 3, "--slow", 1)[0] == 0


def test_a_query_that_has_ended_is_not_well(checkpoint: Checkpoint, midstream) -> None:
    tell(checkpoint, "failed", error="the disk is full")
    assert midstream("health", checkpoint.folder)[:2] == (1, "pairs is not well: it has failed: the disk is full\n")
    tell(checkpoint, "running")
    checkpoint.release()
    assert midstream("health", checkpoint.folder)[:2] == (1, "pairs is not well: it died without a word\n")
    tell(checkpoint, "stopped")
    assert midstream("health", checkpoint.folder)[:2] == (1, "pairs is not well: it has stopped\n")


@pytest.mark.parametrize("command", ["health", "metrics"])
def test_a_folder_that_is_no_checkpoint_is_refused(command: str, tmp_path: Path, midstream) -> None:
    code, out, error = midstream(command, tmp_path / "nowhere")
    assert (code, out, len(error.splitlines())) == (2, "", 1)
    assert "nowhere" in error


def test_metrics_are_what_the_status_says(checkpoint: Checkpoint, midstream) -> None:
    busy(checkpoint, run=3)
    code, out, _ = midstream("metrics", checkpoint.folder)
    assert code == 0
    found, of = samples(out), {"query": "pairs", "checkpoint": str(checkpoint.folder)}
    expected = {
        "up": 1, "failed": 0, "rows_in_total": 1200, "rows_out_total": 345, "late_total": 1, "version": 2, "run": 3,
        "batch": 7, "waiting": 3, "state_bytes": 12_000, "batch_seconds": 0.84, "migrations_under_way": 1,
        "changes_under_way": 0,
    }  # fmt: skip
    assert {name: found[f"midstream_{name}"] for name in expected} == {n: [(of, v)] for n, v in expected.items()}
    assert found["midstream_held_back_seconds"] == [({**of, "stream": "b"}, 2.5)]
    assert found["midstream_silent"] == [({**of, "stream": "c"}, 1.0)]
    assert found["midstream_lag_seconds"][0][1] == pytest.approx(100, abs=30)


def test_a_query_that_died_is_down(checkpoint: Checkpoint, midstream) -> None:
    checkpoint.release()
    found = samples(midstream("metrics", checkpoint.folder)[1])
    assert [found[f"midstream_{name}"][0][1] for name in ("up", "failed")] == [0, 1]


@pytest.mark.slow
def test_metrics_are_served_and_outlive_the_checkpoint(checkpoint: Checkpoint) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-c",
        "from midstream.app.cli import main; main()",
        "metrics",
        str(checkpoint.folder),
        "--port",
        str(port),
    ]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        assert f"http://127.0.0.1:{port}/metrics" in server.stderr.readline()

        def up() -> tuple[str, float]:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                ((labels, value),) = samples(answer.read().decode())["midstream_up"]
            return labels["query"], value

        assert up() == ("pairs", 1.0)
        (checkpoint.folder / "status.json").write_text("{")
        assert up() == ("pairs", 0.0)
    finally:
        server.kill()
        server.wait()


def test_a_port_that_is_taken_is_one_sentence(checkpoint: Checkpoint, midstream) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, error = midstream("metrics", checkpoint.folder, "--port", port)
    assert code == 2
    assert f"cannot serve metrics on 127.0.0.1:{port}" in error


def test_the_panel_shows_metrics_that_there_are(checkpoint: Checkpoint, midstream) -> None:
    busy(checkpoint)
    there = set(samples(midstream("metrics", checkpoint.folder)[1]))
    panel = json.loads(PANEL.read_text())
    asked = {name for p in panel["panels"] for t in p["targets"] for name in re.findall(r"midstream_\w+", t["expr"])}
    assert asked <= there
    assert len(panel["panels"]) == 6
