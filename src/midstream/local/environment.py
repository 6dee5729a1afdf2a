"""Variables of the environment in the texts of a TOML file: `${NAME}`; `$${` is the text `${`. Keys have none.

Where they stand in the query they are a part of it. Anywhere else their values are secrets (`model/secrets.py`).
"""

import os
import re
from collections.abc import Callable
from typing import Any

from midstream.model.secrets import keep_secret

_VARIABLE = re.compile(r"\$(\$)?\{([^{}]*)\}?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OPEN = ("sql", "query", "versions", "at.change")
"""Where queries stand, or where it is said in which file: their values are shown."""


def with_variables(value: Any, place: str, refuse: Callable[[str], Any]) -> Any:
    """Return a value of a document with the variables in its texts replaced, in tables and lists, too."""
    if isinstance(value, dict):
        for key in value:
            if "${" in key:
                refuse(f"{place + ' ' if place else ''}has a key with a variable, {key!r}: variables stand in values")
        return {key: with_variables(held, f"{place}.{key}" if place else key, refuse) for key, held in value.items()}
    if isinstance(value, list):
        return [with_variables(held, place, refuse) for held in value]
    if not isinstance(value, str) or "${" not in value:
        return value

    def replaced(found: re.Match[str]) -> str:
        name = found[2]
        if found[1]:
            return found[0][1:]
        if not _NAME.fullmatch(name) or not found[0].endswith("}"):
            refuse(f"{place} has {found[0]}, which names no variable; write $${{ for the text ${{")
        if name not in os.environ:
            refuse(f"{place} needs the environment variable {name}, which is not set")
        if place not in OPEN:
            keep_secret(name, os.environ[name])
        return os.environ[name]

    return _VARIABLE.sub(replaced, value)
