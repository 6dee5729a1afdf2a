"""Failure: the one sentence in what Spark says when a query fails."""

import re

_ENVELOPES = (
    r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ",
    r"^\[FOREACH_BATCH_USER_FUNCTION_ERROR\] .*? exception: ",
    r"^Job aborted due to stage failure: .*?\): ",
    r"^(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ",
)
_PYTHON_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Invalid)\w*): (.+)$")


def sentence_of(text: str) -> str:
    """Return the cause in a line: the innermost Python error where there is one, else the first line, unwrapped.

    >>> sentence_of("[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: no room SQLSTATE: XXKST")
    'no room'
    >>> sentence_of("Traceback (most recent call last):\\n File\\npyarrow.lib.ArrowInvalid: bad cast\\n\\n at org.x")
    'bad cast (ArrowInvalid)'
    """
    if "Traceback (most recent call last)" in text:
        found = [m for line in text.split("\n") if (m := _PYTHON_ERROR.match(line.strip()))]
        own = [m for m in found if not m[1].startswith("Py4J")]
        if own:
            return f"{own[-1][2]} ({own[-1][1]})"
    line = next((x.strip() for x in text.split("\n") if x.strip()), "unknown")
    for envelope in _ENVELOPES:
        line = re.sub(envelope, "", line)
    return re.sub(r"\s*SQLSTATE: \w+\.?$", "", line)
