"""One Spark session for all Spark tests."""

import pytest


@pytest.fixture(scope="session")
def spark():
    """Return the shared session."""
    from midstream.spark.settings import local_session

    session = local_session()
    yield session
    session.stop()
