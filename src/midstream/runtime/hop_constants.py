"""The constants of the cost model: those of this machine from a file, when it was calibrated, else known ones."""

import json
import os
from dataclasses import asdict, fields
from pathlib import Path

from midstream.model.errors import MidstreamError
from midstream.optimize.hopping.cost import Constants

VARIABLE = "MIDSTREAM_COSTS"
"""Names the file, when it is not at its usual place."""


def constants_file() -> Path:
    """Return where the constants of this machine are kept."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "midstream" / "costs.json"


def load_constants(file: Path | None = None) -> Constants:
    """Return the constants of this machine, or the known ones when it was never calibrated."""
    place = file or constants_file()
    if not place.is_file():
        return Constants()
    try:
        read = json.loads(place.read_text(encoding="utf-8"))
        known = {f.name for f in fields(Constants)}
        return Constants(**{name: float(value) for name, value in read["constants"].items() if name in known})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise MidstreamError(f"cannot read the costs in {place}: {error}; run `midstream calibrate` again") from error


def save_constants(constants: Constants, about: dict[str, object], file: Path | None = None) -> Path:
    """Write the constants of this machine, and what they were measured from."""
    place = file or constants_file()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        pending = place.with_name(f".{place.name}.{os.getpid()}.pending")
        pending.write_text(json.dumps({"constants": asdict(constants), **about}, indent=1) + "\n", encoding="utf-8")
        os.replace(pending, place)
    except OSError as error:
        raise MidstreamError(f"cannot write {place}: {error.strerror}") from error
    return place
