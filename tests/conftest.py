"""What tests share: one Spark session, and which seeds run."""

from collections.abc import Iterator
from typing import Any

import pytest

import seeds


def pytest_report_header() -> str:
    """Say which part of the seeds runs."""
    return f"seeds: {seeds.described()}"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Return the shared session."""
    from midstream.spark.settings import local_session

    session = local_session()
    yield session
    session.stop()
