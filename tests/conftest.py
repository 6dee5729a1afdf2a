"""What tests share: one Spark session, how Java runs, and which seeds run."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

import seeds

JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java compiles no further than pays for runs of minutes: a fifth less processor time than as it comes."""
WHOLE = 4
"""At one commit of so many Spark writes its own files as it does by itself: five processes for each."""

os.environ.setdefault("SPARK_SUBMIT_OPTS", JAVA)


def pytest_report_header() -> str:
    """Say which part of the seeds runs."""
    return f"seeds: {seeds.described()}"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Return the shared session."""
    from midstream.spark.settings import REHEARSAL, local_session

    session = local_session()
    turn = seeds.chosen()
    if turn is not None and turn % WHOLE:
        for key, value in REHEARSAL.items():
            session.conf.set(key, value)
    yield session
    session.stop()
