"""Advise: what the engine has decided of plans by itself, or would do, and how to take its advice."""

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from midstream.app.decided import Decided, decision_lines
from midstream.engine.planning.decisions import ADVISED
from midstream.live.checkpoint import Checkpoint
from midstream.live.decision_file import DecisionFile
from midstream.model.errors import MidstreamError


def advise_command(
    where: Annotated[Path, typer.Argument(metavar="CHECKPOINT_OR_REPORT", help="A checkpoint, or a report (JSON).")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the decisions as JSON.")] = False,
) -> None:
    """Show what a query has decided of its plans by itself, or would do, and what came of it.

    A query does so when it runs with `optimize = "auto"`; with `"advise"` it only writes down what would pay. Under
    each advice stands the command that takes it.

    Example: `midstream advise shop/checkpoint`
    """
    checkpoint = where.is_dir()
    made = _of_checkpoint(where) if checkpoint else _of_report(where)
    if as_json:
        print(json.dumps(made, indent=1))
        return
    if not made:
        print("nothing was decided: no other plan was worth it")
    for k, decision in enumerate(made):
        lines = decision_lines(decision)
        if decision["state"] == ADVISED and k + 1 == len(made):
            lines.append(f"to take it: {accept_line(decision, where if checkpoint else None)}")
        print("\n  ".join(lines))


def _of_checkpoint(folder: Path) -> list[Decided]:
    held = Checkpoint.existing(folder)
    known = DecisionFile(held.decisions, held.world).read()
    if known is None:
        raise MidstreamError(
            f'the query of {folder} has decided nothing: it runs with optimize = "off", or has not looked yet'
        )
    return list(known["decisions"])


def _of_report(file: Path) -> list[Decided]:
    try:
        report = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise MidstreamError(f"cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise MidstreamError(f"{file} is neither a checkpoint nor a report: {error}") from error
    if not isinstance(report, dict) or not isinstance(report.get("decisions"), list):
        raise MidstreamError(f"{file} is no report that has decisions")
    return list(report["decisions"])


def accept_line(decision: Decided, checkpoint: Path | None) -> str:
    """Return the command, or the line of a scenario, that takes an advice."""
    plan, strategy = decision["to"], decision["strategy"]
    if checkpoint is None:
        return f'[run] plan = "{plan}"'
    return shlex.join(["midstream", "migrate", str(checkpoint), plan, "--strategy", strategy])
