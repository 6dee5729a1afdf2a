"""Release: a name for exactly this code, for what only the code that made it may take up again."""

import hashlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent


def name_of_sources(folder: Path, pattern: str = "*.py") -> str:
    """Return a name for exactly the sources in a folder."""
    sources = hashlib.sha256()
    for file in sorted(folder.glob(pattern)):
        sources.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
    return sources.hexdigest()[:16]


def _release() -> str:
    try:
        number = version("midstream")
    except PackageNotFoundError:  # on the path, not installed
        number = ""
    return f"{number}-{name_of_sources(PACKAGE, '**/*.py')}"


RELEASE = _release()
"""The version of the package, and a name for its sources as they were when this process began."""
