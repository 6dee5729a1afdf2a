"""How a running query is doing, in words: its status, its events, one line of a micro-batch."""

import time
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from midstream.app.decided import decided_figures
from midstream.local.explain import explain_plan
from midstream.model.time import format_instant
from midstream.plan.plan import Plan

NOWHERE_US = -(2**60)
"""Event times below this say that no row has been released yet."""
SHOWN_EVENTS = 6


def megabytes(size: float) -> str:
    """Write a size.

    >>> megabytes(1_234_000), megabytes(20_000)
    ('1.2 MB', '20 kB')
    """
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.0f} kB"


def span(seconds: float) -> str:
    """Write how long something takes or took.

    >>> span(0.84), span(75), span(90_000), span(9e8)
    ('0.84 s', '1 min 15 s', '25 h 0 min', '10416 days')
    """
    if abs(seconds) < 60:
        return f"{seconds:.2f} s" if abs(seconds) < 10 else f"{seconds:.0f} s"
    whole = int(seconds)
    if abs(whole) < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min" if abs(whole) < 360_000 else f"{whole // 86_400} days"


def reached(batch: dict[str, Any]) -> str:
    """Write the event time a micro-batch got to."""
    position = batch.get("released_us", NOWHERE_US)
    return format_instant(position) if position > NOWHERE_US else "nowhere yet: not every stream has rows"


def lag_s(batch: dict[str, Any], now: float | None = None) -> float | None:
    """Return how far the event time reached is behind the clock, or behind a time."""
    position = batch.get("released_us", NOWHERE_US)
    return (time.time() if now is None else now) - position / 1e6 if position > NOWHERE_US else None


def behind(load: dict[str, Any]) -> str:
    """Write how much further behind a query is than at best, when that will be too far, and what gives then.

    >>> behind({"lag_s": 12.0, "until_s": 90.0, "gives": "windows of 10 seconds", "lighter": False})
    ', 12 s further than at best, too far in 1 min 30 s: then windows of 10 seconds'
    >>> behind({"lag_s": 31.0, "until_s": None, "gives": "version 2", "lighter": True}), behind({"lag_s": 0.2})
    (', 31 s further than at best; version 2 until it has caught up', '')
    """
    lag, until, gives = load.get("lag_s", 0.0), load.get("until_s"), load.get("gives")
    if lag < 1 and not load.get("lighter"):
        return ""
    soon = f", too far in {span(until)}" + (f": then {gives}" if gives else "") if until and lag >= 1 else ""
    light = f"; {gives} until it has caught up" if load.get("lighter") and gives else ""
    return f", {span(lag)} further than at best{soon}{light}"


def holding(batch: dict[str, Any]) -> str:
    """Write which stream holds the others back, and by how much event time.

    >>> holding({"held_by": {"stream": "b", "lag_us": 75_000_000, "silent_us": 70_000_000}})
    'for b, 1 min 15 s behind the others; its last row came 1 min 10 s ago in event time'
    >>> holding({"held_by": {"stream": "b", "lag_us": 840_000, "silent_us": 0}}), holding({"held_by": None})
    ('for b, 0.84 s behind the others', '')
    """
    held = batch.get("held_by")
    if not held:
        return ""
    since = f"; its last row came {span(held['silent_us'] / 1e6)} ago in event time" if held["silent_us"] else ""
    return f"for {held['stream']}, {span(held['lag_us'] / 1e6)} behind the others{since}"


def batch_line(batch: dict[str, Any]) -> str:
    """Write a micro-batch as one line."""
    return (
        f"batch {batch['batch']}: {batch['rows_in']:,} in, {batch['rows_out']:,} out, {batch['late']:,} late, "
        f"{batch['waiting']:,} waiting, state {megabytes(batch['state_bytes'])}, up to {reached(batch)}, "
        f"took {span(batch['wall_ms'] / 1000)}" + (f", {batch['phase']}" if batch["phase"] != "steady" else "")
    )


def ending(status: dict[str, Any]) -> str:
    """Write in a sentence where a query that has ended stands."""
    waiting = (status.get("last_batch") or {}).get("waiting", 0)
    kept = f"; {waiting:,} wait in the checkpoint for their time to come" if waiting else ""
    late = f", {status['late']:,} late" if "late" in status else ""
    return f"{status['rows_in']:,} rows in, {status['rows_out']:,} results out{late}{kept}"


def under_way(change: dict[str, Any]) -> str:
    """Write how a change goes."""
    label = f"{change['method']}/{change['order']}" if change["order"] else change["method"]
    since = "" if change["position_us"] is None else f" since {format_instant(change['position_us'])}"
    waits = "" if change["started_us"] is not None else " (not started yet)"
    return (
        f"changing to version {change['to_version']}{waits} by {label}{since}: {change['old_results']:,} results of "
        f"version {change['from_version']}, {change['new_results']:,} of version {change['to_version']}, "
        f"{change['rows_held']:,} held back at most"
    )


def figures(status: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what people want to know of a query, in order."""
    batch = status.get("last_batch") or {}
    rows = [("version", str(status["version"]))] if "version" in status else []
    rows += [("", under_way(change)) for change in status.get("changes", [])]
    rows += [("rows in", f"{status.get('rows_in', 0):,}   {status.get('rows_in_per_s', 0):,.0f} rows/s"),
            ("results out", f"{status.get('rows_out', 0):,}   {status.get('rows_out_per_s', 0):,.0f} rows/s"),
            ("late", f"{status.get('late', 0):,}")]  # fmt: skip
    rows += [("too far ahead", f"{status['ahead']:,}")] if status.get("ahead") else []
    if not batch:
        return [*rows, ("last batch", "none yet")]
    rows += [row for site in batch.get("sites", ()) for row in site_figures(site)]
    rows += [
        ("waiting", f"{batch['waiting']:,}" + (f"   {held}" if (held := holding(batch)) else "")),
        *([("silent", ", ".join(batch["silent"]))] if batch.get("silent") else []),
        ("state", f"{megabytes(batch['state_bytes'])}   {batch['state_tuples']:,} entries"),
        ("event time", reached(batch)),
        ("last batch", f"number {batch['batch']}, took {span(batch['wall_ms'] / 1000)}"),
        *decided_figures(status.get("decisions", [])),
    ]
    return rows


def site_figures(site: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what people want to know of one site: what its nodes do, the windows they hold, what it has sent.

    >>> said = {"operators": ["NOS_a = {ship(S_a, N_b)}"], "windows": {"a": {"a": 1200}}, "modification": 3}
    >>> site_figures({"site": "tokyo", "phase": "steady", "bytes": {"london": 2_000_000}, **said})
    [('tokyo', 'NOS_a = {ship(S_a, N_b)}; windows at a: a 1,200; 2.0 MB sent to london; modification 3')]
    """
    held = [
        f"windows at {n}: " + ", ".join(f"{a} {rows:,}" for a, rows in w.items()) for n, w in site["windows"].items()
    ]
    sent = [f"{megabytes(size)} sent to {to}" for to, size in site["bytes"].items()]
    modified = [f"modification {site['modification']}"] if site["modification"] else []
    phase = [site["phase"]] if site["phase"] != "steady" else []
    return [(site["site"], "; ".join([*site["operators"], *held, *sent, *modified, *phase]))]


def adopted_figures(status: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what people want to know of a program of theirs, in order."""
    named = [v["build"] for v in status.get("versions", []) if v["version"] == status.get("version")]
    rows = [("version", " ".join([str(status.get("version", "")), *named])),
            ("rows in", f"{status.get('rows_in', 0):,}"), ("results out", f"{status.get('rows_out', 0):,}"),
            ("segments", f"{status.get('segment', 0):,}, {status.get('published', 0):,} answered")]  # fmt: skip
    deployment = status.get("deployment")
    if deployment:
        rows.append(("deployment", f"of version {deployment['to_version']}: {deployment['state']}"))
    return rows


def facts(status: dict[str, Any]) -> list[tuple[str, str]]:
    """Return all that people are told of a query, in order."""
    batch = status.get("last_batch") or {}
    phase = status.get("phase", "steady")
    if status.get("adopted"):
        rows = adopted_figures(status)
    else:
        rows = [("plan", str(status.get("plan", "")) + (f"   {phase}" if phase != "steady" else ""))]
        rows.append(("buckets", f"{status.get('buckets', '')} ({status.get('partitioning', '')})"))
        rows += figures(status)
    lag = lag_s(batch)
    if lag is not None and status["state"] == "running":
        rows.append(("behind the clock", span(lag) + behind(status.get("load") or {})))
    if "updated" in status:
        rows.append(("updated", f"{span(time.time() - status['updated'])} ago"))
    if "pid" in status:
        rows.append(("process", f"{status['pid']} on {status.get('host', 'this machine')}"))
    if status.get("error"):
        rows.append(("error", str(status["error"])))
    return rows


def print_events(console: Console, events: list[dict[str, Any]]) -> None:
    """Print events, oldest first."""
    table = Table(title="What happened last", title_justify="left", box=SIMPLE_HEAD, show_header=False)
    for event in events:
        more = {k: v for k, v in event.items() if k not in ("at", "event") and not isinstance(v, list | dict)}
        if event.get("event") == "statistics":
            more = {k: more[k] for k in ("batch", "rows_in", "rows_out", "waiting", "state_bytes") if k in more}
        at = format_instant(int(float(event.get("at", 0)) * 1e6))[:19]
        table.add_row(at, str(event.get("event")), ", ".join(f"{k} {v}" for k, v in more.items()))
    if events:
        console.print(table, highlight=False)


def plan_lines(plan: Plan) -> str:
    """Return the tree of operators, and the windows of instances above it."""
    lines = explain_plan(plan).split("\n")
    start = next(k for k, line in enumerate(lines) if line.startswith("Plan"))
    stages = lines[lines.index("Stages") : lines.index("Partitioning")] if "Stages" in lines else []
    return "\n".join([*lines[start : lines.index("Windows")], *stages])
