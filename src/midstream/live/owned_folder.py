"""Owned folder: a folder of results belongs to one query, which `_midstream.json` says before the first of them, and
to the newest run of that query.

    an earlier run: write .NAME.pending ──▶ is there a newer run? ──▶ rename
    the newest run: others see that it has begun ──▶ remove what is pending

So a driver that was believed dead does not put an older answer in place of a newer one: either it sees the newer run,
or what it was about to rename is gone.
"""

from collections.abc import Callable
from pathlib import Path

from midstream.engine.world import World, document_bytes
from midstream.live.sink import Owner
from midstream.local.files import writing
from midstream.model.errors import SinkError
from midstream.model.failpoint import reach
from midstream.model.format import check_format

FORMAT = 1
"""The form in which a folder of results is laid out."""
OWNER = "_midstream.json"
PENDING_FOLDER = ".pending-"
"""What folders begin with that workers write into."""
PENDING_FILES = (".batch-", ".answer.", ".table.")
"""What files of results begin with until they are whole."""
_DO = "restore it from a copy, or give the query another folder"


def take_folder(folder: Path, owner: Owner, world: World, has_others: Callable[[], bool]) -> None:
    """Take a folder for a query, or refuse: it is another one's. Where none says so, `has_others` knows of results."""
    known = world.read_json(folder / OWNER, _DO)
    if known is None:
        if has_others():
            raise SinkError(f"{folder} has results of another query; give this one an empty folder")
        who = {"query": owner.identity, "name": owner.name, "checkpoint": str(owner.checkpoint)}
        with writing(folder):
            # Of two queries that begin at once the first is heard.
            world.add(folder / OWNER, document_bytes({"format": FORMAT, **who}))
        known = world.read_json(folder / OWNER, _DO) or {}
    check_format(f"folder {folder}", known.get("format"), FORMAT)
    if known.get("query") != owner.identity:
        raise SinkError(
            f"{folder} has results of query '{known.get('name')}' with checkpoint {known.get('checkpoint')}; "
            "give this one a folder of its own"
        )


def remove_pending(folder: Path, world: World) -> None:
    """Remove what earlier runs were about to let readers see."""
    for name in world.files.names(folder):
        if name.startswith(PENDING_FOLDER):
            world.files.remove_folder(folder / name)
            reach("pending removed")
        elif name.startswith(PENDING_FILES) and name.endswith(".pending"):
            world.files.remove(folder / name)
            reach("pending removed")
