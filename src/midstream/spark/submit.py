"""Submit: settings on their way to the JVM, in a file of this user alone.

On the command line, where PySpark puts them, every user of the machine could read them. The file is gone when the JVM
has started.
"""

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from midstream.local.files import write_text

VARIABLE = "PYSPARK_SUBMIT_ARGS"


@contextmanager
def submitted_with(settings: Mapping[str, str]) -> Iterator[None]:
    """Let a JVM that is started now have settings; those of `spark-defaults.conf` count as before."""
    before = os.environ.get(VARIABLE)
    folder = Path(tempfile.mkdtemp(prefix="midstream-submit-"))  # of this user alone
    try:
        file = folder / "settings.properties"
        write_text(file, as_properties(settings))
        ours = ["--properties-file", str(file), "--load-spark-defaults"]
        os.environ[VARIABLE] = f"{shlex.join(ours)} {before or 'pyspark-shell'}"
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def as_properties(settings: Mapping[str, str]) -> str:
    """Write settings as Java reads them.

    >>> print(as_properties({"a b": " x=1", "c:d": "#ü\\n"}), end="")
    a\\ b=\\ x\\=1
    c\\:d=\\#\\u00fc\\n
    """
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())


def _escaped(text: str) -> str:
    out = []
    for char in text:
        if char in "\\ =:#!":
            out.append("\\" + char)
        elif char in _CONTROLS:
            out.append(_CONTROLS[char])
        elif " " < char < "\x7f":
            out.append(char)
        else:
            units = char.encode("utf-16-be")
            out += [f"\\u{units[k]:02x}{units[k + 1]:02x}" for k in range(0, len(units), 2)]
    return "".join(out)


_CONTROLS = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
