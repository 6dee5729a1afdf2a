"""Secrets: values from the environment that a file names by `${NAME}`, and that nobody is shown again.

    options.password = "${PASSWORD}" ──▶ the value, for whoever needs it
    a text for people, a status, an event, a log ──▶ the value is `${PASSWORD}` again

State: the values this process has taken from its environment.
"""

import json
from typing import Any

SHORTEST = 4
"""Shorter values are no secrets: texts would be full of them by chance."""
SHORTEST_LINE = 8
"""The same of a line of a value that has several: a key, a document."""
OURS = frozenset({"aliases", "event", "host", "id", "identity", "phase", "row", "silent", "state", "stream"})
"""Keys of values that Midstream goes by: a state, an id, names of streams. What they say is never masked."""

_named: dict[str, str] = {}
"""How each value is shown, by the value; the longest first, so that no part of one is left over."""


def keep_secret(name: str, value: str) -> None:
    """Let a value be shown as the name of its variable from now on; so is each line of it, for logs are lines."""
    lines = [line.strip() for line in value.splitlines()]
    parts = [line for line in lines if len(line) >= (SHORTEST_LINE if len(lines) > 1 else SHORTEST)]
    if len(value) >= SHORTEST:
        shown = f"${{{name}}}"
        for form in [form for part in (value, *parts) for form in (part, json.dumps(part)[1:-1], repr(part)[1:-1])]:
            _named.setdefault(form, shown)
        longest_first = sorted(_named.items(), key=lambda item: -len(item[0]))
        _named.clear()
        _named.update(longest_first)


def mask(text: str) -> str:
    """Return a text with the names of variables in place of their values.

    >>> mask("nothing is secret yet")
    'nothing is secret yet'
    """
    for value, shown in _named.items():
        if value in text:
            text = text.replace(value, shown)
    return text


def masked(document: Any) -> Any:
    """Return plain values with the names of variables in the texts that people are shown; `OURS` stay as they are.

    Text by text, not in the JSON they become: a port would be found in numbers, and a word in keys.

    >>> masked({"state": "running", "rows_in": 90920, "error": "none"})
    {'state': 'running', 'rows_in': 90920, 'error': 'none'}
    """
    if not _named:
        return document
    if isinstance(document, dict):
        return {key: held if key in OURS else masked(held) for key, held in document.items()}
    if isinstance(document, list | tuple):
        return [masked(held) for held in document]
    return mask(document) if isinstance(document, str) else document


def mask_bytes(line: bytes) -> bytes:
    """Return a line of a log with the names of variables in place of their values."""
    return mask(line.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape") if _named else line
