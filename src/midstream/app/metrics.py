"""Metrics: what queries report of themselves, for Prometheus, read from their checkpoints.

status.json of each query ──▶ gauges and counters with the query's name ──▶ printed once, or served over HTTP
"""

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from midstream.app.asking import say
from midstream.app.status import lag_s
from midstream.live.checkpoint import Checkpoint
from midstream.model.errors import MidstreamError

COUNTERS = {
    "rows_in": "Rows that were read.",
    "rows_out": "Results that were emitted.",
    "late": "Rows that came too late and were set aside.",
    "ahead": "Rows whose time was too far ahead and that were set aside.",
}
OF_STATUS = {"version": "The newest version of the query that runs.", "run": "How often the query was started."}
OF_BATCH = {
    "batch": "The number of the last micro-batch.",
    "waiting": "Rows that wait for other streams.",
    "state_tuples": "Entries that operators hold.",
    "state_bytes": "Bytes that operators hold.",
}
UNDER_WAY = {"migrations": "Migrations that are not over.", "changes": "Changes that are not over."}
Sample = tuple[dict[str, str], float]
"""Labels and a value."""


def metrics_command(
    checkpoints: Annotated[list[Path], typer.Argument(help="The checkpoint folders of the queries.")],
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, help="Serve them over HTTP on this port, until Ctrl-C.")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="The address to serve them on.")] = "127.0.0.1",
) -> None:
    """Print what queries report, in the form Prometheus reads; with --port, serve it.

    It reads checkpoints only: the queries notice nothing, and one that has died is told from one that runs.
    A query that cannot be read any more counts as down.

    Example: `midstream metrics shop/checkpoint fraud/checkpoint --port 9108`
    """
    library = _library()
    for folder in checkpoints:
        Checkpoint.existing(folder)
    registry = library.CollectorRegistry()
    registry.register(QueryCollector(checkpoints, library))
    if port is None:
        print(library.generate_latest(registry).decode(), end="")
        return
    try:
        server, thread = library.start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise MidstreamError(f"cannot serve metrics on {host}:{port}: {error.strerror or error}") from error
    say(f"metrics of {len(checkpoints)} queries: http://{host}:{port}/metrics; end it with Ctrl-C")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        server.shutdown()
        thread.join()


class QueryCollector:
    """Reads the statuses whenever somebody asks."""

    def __init__(self, folders: Sequence[Path], library: Any) -> None:
        self._folders, self._library = folders, library
        self._names: dict[Path, str] = {}
        """What queries were called when they could be read."""

    def collect(self) -> Iterator[Any]:
        """Yield what the client library wants: a family of samples for each metric."""
        families = self._library.core
        for name, (about, counts, samples) in metrics_of([self._status(f) for f in self._folders], time.time()).items():
            kind = families.CounterMetricFamily if counts else families.GaugeMetricFamily
            labels = list(samples[0][0])
            family = kind(f"midstream_{name}", about, labels=labels)
            for values, value in samples:
                family.add_metric(list(values.values()), value)
            yield family

    def _status(self, folder: Path) -> dict[str, Any]:
        try:
            status = Checkpoint(folder).read_status()
            self._names[folder] = str(status.get("name", folder.name))
        except (MidstreamError, OSError):
            status = {"state": "not to be read"}
        return status | {"name": self._names.get(folder, folder.name), "checkpoint": str(folder)}


def metrics_of(statuses: Sequence[dict[str, Any]], now: float) -> dict[str, tuple[str, bool, list[Sample]]]:
    """Return metrics by name: what they are, whether they count up, and their samples.

    >>> batch = {"wall_ms": 250.0}
    >>> shop = {"name": "shop", "checkpoint": "cp", "state": "running", "rows_in": 7, "last_batch": batch}
    >>> found = metrics_of([shop], 0.0)
    >>> found["up"][2], found["batch_seconds"][2]
    ([({'query': 'shop', 'checkpoint': 'cp'}, 1.0)], [({'query': 'shop', 'checkpoint': 'cp'}, 0.25)])
    """
    found: dict[str, tuple[str, bool, list[Sample]]] = {}

    def add(name: str, about: str, value: Any, labels: dict[str, str], counts: bool = False) -> None:
        if isinstance(value, int | float):
            found.setdefault(name, (about, counts, []))[2].append((labels, float(value)))

    for status in statuses:
        query = {"query": str(status.get("name", "")), "checkpoint": str(status.get("checkpoint", ""))}
        batch = status.get("last_batch") or {}
        add("up", "1: the query runs. 0: it was stopped, has failed or died, or cannot be read.",
            int(status["state"] == "running"), query)  # fmt: skip
        add("failed", "1: the query has failed or died.", int(status["state"] in ("failed", "died")), query)
        for name, about in COUNTERS.items():
            add(name, about, status.get(name), query, counts=True)
        for name, about in OF_STATUS.items():
            add(name, about, status.get(name), query)
        for name, about in OF_BATCH.items():
            add(name, about, batch.get(name), query)
        for name, about in UNDER_WAY.items():
            add(f"{name}_under_way", about, len(status[name]) if name in status else None, query)
        took_ms = batch.get("wall_ms")
        add("batch_seconds", "How long the last micro-batch took.", took_ms / 1000 if took_ms else None, query)
        add("lag_seconds", "How far event time is behind the clock.", lag_s(batch, now), query)
        add("updated_timestamp_seconds", "When the query last said how it is.", status.get("updated"), query)
        held = batch.get("held_by") or {}
        if held:
            of = query | {"stream": str(held["stream"])}
            add("held_back_seconds", "The stream that holds the others back, and how far behind them it is, in event "
                "time.", held["lag_us"] / 1e6, of)  # fmt: skip
        for stream in batch.get("silent", ()):
            add("silent", "1: nobody waits for the stream any more.", 1, query | {"stream": str(stream)})
    return found


def _library() -> Any:
    try:
        import prometheus_client
        import prometheus_client.core
    except ModuleNotFoundError as error:
        raise MidstreamError("metrics need the metrics extra: pip install 'midstream[metrics]'") from error
    return prometheus_client
