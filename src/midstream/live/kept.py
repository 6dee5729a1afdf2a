"""Kept: how much stays of what grows with the age of a query, as `[retention]` of a pipeline says."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from midstream.model.errors import MidstreamError


@dataclass(frozen=True)
class Retention:
    """What is kept. Windows need none of it; late rows are data, so all of them stay unless somebody says otherwise."""

    late_files: int | None = None
    """Files with late rows, one per micro-batch that had some; None: all."""
    event_bytes: int = 8 << 20
    """When the file of events is longer, another one is begun; the one before it stays."""
    control_rows: int = 64
    """Control rows that stay whatever they are, for people to look at."""

    @staticmethod
    def of(given: Mapping[str, Any] | None) -> "Retention":
        """Read what is asked for.

        >>> Retention.of({"late_files": 1000}).late_files
        1000
        """
        names = [field.name for field in fields(Retention)]
        if not isinstance(given, Mapping | None):
            raise MidstreamError(f"retention says how much of {', '.join(names)} is kept, and is not {given!r}")
        for name, value in (given or {}).items():
            if name not in names:
                raise MidstreamError(f"retention has an unknown key '{name}'; it can have {', '.join(names)}")
            least = 65_536 if name == "event_bytes" else 1
            if type(value) is not int or not least <= value < 2**62:
                raise MidstreamError(f"retention {name} must be a whole number, {least} at least, not {value!r}")
        return Retention(**(given or {}))
