"""Failure: the one sentence in what Spark says when a query fails, and what Spark is told of a failure in Python."""

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from midstream.model.format import RESTORE

STATE_NOT_LOADED = "CANNOT_LOAD_STATE_STORE"
_ERROR = re.compile(r"^(?:: |Caused by: )?((?:\w+\.)*)(\w*(?:Error|Exception|Invalid)\w*): (.+)$")
"""A line that names an error, of Python or of Java, and says what it is about."""
_ENVELOPES = (
    "An error occurred while",
    "An error occurred in ",
    "An exception was thrown from",
    "Job aborted due to stage failure",
    "Traceback ",
)
_CALLING = "An error occurred while calling"
_INTERRUPTIONS = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
)
_OF_JAVA = ("org.", "java.", "javax.", "scala.", "com.")


def sentence_of(text: str) -> str:
    """Return the innermost Python error of a text with stack traces, or the outermost of Java, or the first line.

    >>> sentence_of("[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: no room SQLSTATE: XXKST")
    'no room'
    >>> sentence_of("Traceback (most recent call last):\\n File\\npyarrow.lib.ArrowInvalid: bad cast\\n\\n at org.x")
    'bad cast (ArrowInvalid)'
    >>> sentence_of("Traceback (most recent call last):\\n File\\nmidstream.model.errors.MidstreamError: no segments")
    'no segments'
    >>> sentence_of("py4j.Py4JJavaError: An error occurred while\\n: org.x.NoSuchException: [NONE] no such thing")
    'no such thing'
    """
    before = text.partition("=== Streaming Query ===")[0]
    found = [m for line in before.split("\n") if (m := _ERROR.match(line.strip())) and not m[3].startswith(_ENVELOPES)]
    if own := [m for m in found if not m[1].startswith(_OF_JAVA)]:
        package, name, message = own[-1].groups()
        return _plain(message) if package.startswith(("pyspark.", "midstream.")) else f"{_plain(message)} ({name})"
    if found:
        return _plain(found[0][3])
    return _plain(next((line for line in before.split("\n") if line.strip()), "unknown"))


class MicroBatchError(Exception):
    """What a function for micro-batches has raised, in a text that Spark can read."""


def interruption() -> MicroBatchError:
    """Return what ends a query that is being stopped without a word in the log."""
    return MicroBatchError(f"py4j.protocol.Py4JJavaError: {_CALLING}: {_INTERRUPTIONS[0]}")


@contextmanager
def readable_by_spark() -> Iterator[None]:
    """Let what is raised in a function for micro-batches be such that Spark can read it.

    Spark looks for an interruption in the text of an error by a pattern that recurses over every character after
    `_CALLING`. In a long stack trace it runs out of stack: the thread of the query ends with a thousand lines in the
    log, and why it has ended is lost.
    """
    try:
        yield
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        if _CALLING not in text:
            raise
        raise MicroBatchError(without_recursion(text)) from None


def without_recursion(text: str) -> str:
    """Return a text in which Spark finds an interruption at once, if there is one, and else does not look for it.

    >>> without_recursion("py4j.protocol.Py4JJavaError: An error occurred while calling o7.count.\\n: org.x.Bad: no")
    'py4j.protocol.Py4JJavaError: An error occurred in o7.count.\\n: org.x.Bad: no'
    >>> without_recursion(f"{_CALLING} o7.x{'x' * 10_000}Caused by: java.lang.InterruptedException: sleep")
    'py4j.protocol.Py4JJavaError: An error occurred while calling: java.lang.InterruptedException'
    """
    for name in _INTERRUPTIONS:
        if name in text:
            return f"py4j.protocol.Py4JJavaError: {_CALLING}: {name}"
    return text.replace(_CALLING, "An error occurred in")


def why_failed(text: str, place: Path) -> str:
    """Return the sentence; where a state in a checkpoint of Spark's cannot be read, with its place.

    >>> why_failed("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.", Path("c/spark"))
    'An error occurred during loading state: a file in c/spark/state may be empty or cut short; restore it from a \
copy, or start with a new checkpoint'
    """
    said = sentence_of(text)
    if STATE_NOT_LOADED not in text:
        return said
    return f"{said.rstrip('.')}: a file in {place / 'state'} may be empty or cut short; {RESTORE}"


def _plain(line: str) -> str:
    """Take Spark's codes out of a sentence."""
    line = re.sub(r"^\s*\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ", "", line)
    line = re.sub(r"^\[[A-Z0-9_.]+\] ", "", line)
    return re.sub(r"\s*SQLSTATE: \w+\.?", "", line).strip()
