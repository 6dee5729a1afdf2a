"""Sites in a scenario: `site` of streams and of [run], `update`, `threshold` and [[links]]."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from midstream.local.toml_file import TomlFile
from midstream.operators.build import SITES, check_framework
from midstream.plan.plan import Plan
from midstream.sites.declaration import DEFAULT_LINK, THRESHOLD, UPDATES, Declared, DeclaredSites, Link, Update

__all__ = ["RUN_KEYS", "SITES", "DeclaredSites", "place_plan", "read_sites"]

RUN_KEYS = ("site", "update", "threshold")
LINK_KEYS = ("from", "to", "latency", "bandwidth")
NOT_OVER_SITES = ("plan", "adapt", "optimize", "buckets", "routing", "working")
"""Keys of [run] that mean nothing where streams are joined over sites."""
_BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "bit": 1 / 8, "kbit": 125.0, "Mbit": 125e3, "Gbit": 125e6}


def place_plan(plan: Plan, given: DeclaredSites) -> tuple[Plan, Declared]:
    """Return a plan whose streams are joined where they arrive, and what is declared of its aliases; or refuse."""
    check_framework(plan, SITES)
    declared = given.of(plan.query)
    sites = (*(declared.sites[alias] for alias in plan.query.aliases), declared.query_site)
    return replace(plan, sites=sites), declared


def read_sites(
    file: TomlFile, streams: Mapping[str, dict[str, Any]], run: dict[str, Any], framework: str
) -> DeclaredSites:
    """Return what a scenario declares of its sites; which of them a query needs is checked when it is planned."""
    if framework == SITES:
        for key in NOT_OVER_SITES:
            if key in run:
                file.refuse(
                    f'[run] {key} does not go with framework = "{SITES}", which plans where each join takes place'
                )
        if "at" in file.document:
            file.refuse(f'[[at]] does not go with framework = "{SITES}", whose plan follows the rates of its streams')
    else:
        for key in ("update", "threshold"):
            if key in run:
                file.refuse(f'[run] {key} is for framework = "{SITES}", not for "{framework}"')
    own, others = _links(file)
    return DeclaredSites(
        {n: _name(file, t, "site", f"[streams.{n}]") for n, t in streams.items() if "site" in t},
        _name(file, run, "site", "[run]") if "site" in run else None,
        _update(file, run),
        _threshold(file, run),
        own,
        others,
    )


def _update(file: TomlFile, run: dict[str, Any]) -> Update:
    asked = file.choice(run, "update", UPDATES)
    return next(u for u in UPDATES if u == asked)


def _threshold(file: TomlFile, run: dict[str, Any]) -> float:
    value = run.get("threshold", THRESHOLD)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        file.refuse(f"[run] threshold must be a number of 0 or more (0.1: costs changed by a tenth), not {value!r}")
    return float(value)


def _links(file: TomlFile) -> tuple[dict[tuple[str, str], Link], Link]:
    """Return the declared links by their ends, and the link of all others."""
    entries = file.document.get("links", [])
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        file.refuse('links are written as [[links]] with from = "...", to = "...", latency = ... and bandwidth = ...')
    own: dict[tuple[str, str], Link] = {}
    others: list[Link] = []
    for k, entry in enumerate(entries):
        place = f"[[links]] number {k + 1}"
        file.known(entry, LINK_KEYS, place)
        latency = file.duration(entry, "latency", DEFAULT_LINK.latency_us, place)
        link = Link(latency, _bandwidth(file, entry, place))
        if "from" not in entry and "to" not in entry:
            others.append(link)
            continue
        ends = (_name(file, entry, "from", place), _name(file, entry, "to", place))
        if ends[0] == ends[1]:
            file.refuse(f"{place} goes from '{ends[0]}' to itself")
        if ends in own:
            file.refuse(f"{place} declares the link from '{ends[0]}' to '{ends[1]}' again")
        own[ends] = link
    if len(others) > 1:
        file.refuse("two [[links]] name no ends; one is for all links that are not named")
    return own, others[0] if others else DEFAULT_LINK


def _bandwidth(file: TomlFile, entry: dict[str, Any], place: str) -> float:
    """Return bytes a second: a number, or text with a unit."""
    value = entry.get("bandwidth", DEFAULT_LINK.bytes_per_s)
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)/s\s*", value)
        scale = _BYTES.get(match[2]) if match else None
        number = float(match[1]) * scale if match and scale else 0.0
    else:
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
    if not 0 < number < 1e18:
        file.refuse(
            f"{place} bandwidth must be bytes a second, or text such as '1024 kbit/s' or '2 MB/s', not {value!r}"
        )
    return number


def _name(file: TomlFile, table: dict[str, Any], key: str, place: str) -> str:
    text = file.text(table, key, place)
    if not text.strip() or not text.isprintable():
        file.refuse(f"{place} {key} must be the name of a site, not {text!r}")
    return text
