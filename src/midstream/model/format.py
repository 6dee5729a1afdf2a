"""Formats: everything durable names its own, and what was written in another one is refused."""

from midstream.model.errors import MidstreamError


def check_format(what: str, found: int | None, known: int, oldest: int | None = None) -> None:
    """Refuse what was written in another form than the known one, or those since the oldest that is still read."""
    if found is None or not (known if oldest is None else oldest) <= found <= known:
        newer = found is not None and found > known
        do = "go on with the release that wrote it, or a later one" if newer else "start with a new checkpoint"
        raise MidstreamError(f"{what} was written in format {found}, and this release reads format {known}; {do}")
