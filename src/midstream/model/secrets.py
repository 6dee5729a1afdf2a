"""Secrets: values from the environment that a file names by `${NAME}`, and that nobody is shown again.

    options.password = "${PASSWORD}" ──▶ the value, for whoever needs it
    a text for people, a status, an event, a log ──▶ the value is `${PASSWORD}` again

State: the values this process has taken from its environment.
"""

import json

SHORTEST = 4
"""Shorter values are no secrets: texts would be full of them by chance."""

_named: dict[str, str] = {}
"""How each value is shown, by the value; the longest first, so that no part of one is left over."""


def keep_secret(name: str, value: str) -> None:
    """Let a value be shown as the name of its variable from now on."""
    if len(value) >= SHORTEST:
        shown = f"${{{name}}}"
        for form in (value, json.dumps(value)[1:-1], repr(value)[1:-1]):
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


def mask_bytes(line: bytes) -> bytes:
    """Return a line of a log with the names of variables in place of their values."""
    return mask(line.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape") if _named else line
