"""The constants of the cost model: those of this machine from a file, when it was calibrated, else known ones."""

import json
import os
from dataclasses import replace
from pathlib import Path

from midstream.model.errors import MidstreamError
from midstream.optimize.hopping.cost import NUMBERS, Constants

VARIABLE = "MIDSTREAM_COSTS"
"""Names the file, when it is not at its usual place."""
MODEL = 2
"""Which model the constants are of: those of another one say something else."""


def constants_file() -> Path:
    """Return where the constants of this machine are kept."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    # Without a home, as executors may be, this is no folder, and there is no file.
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(home) / "midstream" / "costs.json"


def load_constants(file: Path | None = None) -> Constants:
    """Return the constants of this machine, or the known ones when it was never calibrated for this model."""
    place = file or constants_file()
    if not os.path.isfile(place):  # nor in a home that may not be looked into
        return Constants()
    try:
        read = json.loads(place.read_text(encoding="utf-8"))
        if read.get("model") != MODEL:
            return Constants()
        own = {name: _constants(numbers) for name, numbers in read["operators"].items()}
        return replace(_constants(read["constants"]), own=own)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise MidstreamError(f"cannot read the costs in {place}: {error}; run `midstream calibrate` again") from error


def _constants(numbers: dict[str, float]) -> Constants:
    return Constants().but({name: float(value) for name, value in numbers.items() if name in NUMBERS})


def save_constants(constants: Constants, about: dict[str, object], file: Path | None = None) -> Path:
    """Write the constants of this machine, and what they were measured from."""
    place = file or constants_file()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        pending = place.with_name(f".{place.name}.{os.getpid()}.pending")
        own = {name: _plain(of) for name, of in constants.own.items()}
        written = {"model": MODEL, "constants": _plain(constants), "operators": own, **about}
        pending.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
        os.replace(pending, place)
    except OSError as error:
        raise MidstreamError(f"cannot write {place}: {error.strerror}") from error
    return place


def _plain(constants: Constants) -> dict[str, float]:
    return {name: getattr(constants, name) for name in NUMBERS}
