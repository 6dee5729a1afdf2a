"""Decision file: what a live query has decided of its plans by itself, and what it has to know to decide again.

Written before what was decided is asked for: whoever starts the query again asks for what was not asked for yet.
"""

from pathlib import Path
from typing import Any

from midstream.engine.world import World, document_bytes
from midstream.model.errors import MidstreamError
from midstream.model.failpoint import reach
from midstream.model.format import check_format

FORMAT = 1
"""The form in which decisions are written."""
SPARE = "remove it: the query goes on, and forgets what it has decided"
"""What to do when it is broken: no result depends on it."""


class DecisionFile:
    """The file of one query."""

    def __init__(self, file: Path, world: World) -> None:
        self._file, self._world = file, world

    def read(self) -> dict[str, Any] | None:
        """Return what was written last, or None."""
        known = self._world.read_json(self._file, SPARE)
        if known is None:
            return None
        check_format(f"{self._file}", known.get("format"), FORMAT)
        made = known.get("decisions")
        if not isinstance(made, list) or not all(isinstance(decision, dict) for decision in made):
            raise MidstreamError(f"{self._file} is broken, its decisions are {str(made)[:40]!r}; {SPARE}")
        return known

    def write(self, known: dict[str, Any]) -> None:
        """Replace what was written."""
        written = document_bytes({"format": FORMAT, **known})
        self._world.put(self._file, written, point=lambda: reach("decisions pending"))
        reach("decisions noted")
