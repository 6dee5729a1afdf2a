"""What Spark is told when a function for micro-batches fails: it finds an interruption at once, or looks for none."""

import re
import traceback

import pytest

from midstream.spark.failure import MicroBatchError, interruption, readable_by_spark, sentence_of

TRACE = "An error occurred while calling o7.getResult.\n"
SPARKS = re.compile(
    r"py4j.protocol.Py4JJavaError: An error occurred while calling.*(java.lang.InterruptedException)", re.S
)
"""What Spark 4.3 searches for, there with an alternative repeated for every character, which takes a call each."""


class Py4JJavaError(Exception):
    __module__ = "py4j.protocol"


def told(error: Exception) -> str:
    """Return the text that Spark gets."""
    with pytest.raises(Exception) as raised, readable_by_spark():  # noqa: PT011 - whatever comes
        raise error
    return "".join(traceback.format_exception(raised.value))


def test_a_long_stack_trace_is_not_searched() -> None:
    frames = "\n".join("\tat org.apache.spark.Somewhere" for _ in range(2000))
    text = told(Py4JJavaError(f"{TRACE}: org.apache.spark.SparkException: [NONE] no such thing\n{frames}"))
    assert "An error occurred while calling" not in text
    assert sentence_of(text) == "no such thing"


def test_an_interruption_is_found_at_once() -> None:
    frames = "\n".join("\tat java.base/java.lang.Thread.sleep" for _ in range(2000))
    text = told(Py4JJavaError(f"{TRACE}: java.lang.InterruptedException\n{frames}"))
    found = SPARKS.search(text)
    assert found is not None
    assert len(found[0]) < 150


def test_a_query_that_is_stopped_is_interrupted() -> None:
    assert SPARKS.search(told(interruption())) is not None


def test_what_a_cause_says_is_not_searched_either() -> None:
    error = OSError("no room")
    error.__cause__ = Py4JJavaError(f"{TRACE}{'x' * 100_000}")
    text = told(error)
    assert "An error occurred while calling" not in text
    assert sentence_of(text) == "no room (OSError)"


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(OSError, match="no room"), readable_by_spark():
        raise OSError("no room")
    assert issubclass(MicroBatchError, Exception)
