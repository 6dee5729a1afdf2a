"""Timing: what is allowed of the times of a stream's rows, and how long others wait for it."""

from dataclasses import dataclass

from midstream.model.errors import SourceError


@dataclass(frozen=True)
class Timing:
    """How the rows of one stream are judged by their times, all in microseconds of event time."""

    lateness_us: int = 0
    """A row may be this much earlier than the largest time of its stream; one that is earlier still is late."""
    idle_us: int | None = None
    """A stream is silent when the others have come this much further since its last row: they wait for it no longer.

    None: they wait however long it is.
    """
    ahead_us: int | None = None
    """A row may be this much later than what has been seen; one that is later still, alone, is set aside.

    None: time may jump.
    """

    def checked(self, stream: str) -> "Timing":
        """Return this, or refuse what cannot be."""
        for name, span_us in (("lateness", self.lateness_us), ("idle", self.idle_us), ("ahead", self.ahead_us)):
            if span_us is not None and span_us < 0:
                raise SourceError(f"stream '{stream}': {name} cannot be negative: {span_us} microseconds")
        if self.ahead_us == 0:
            raise SourceError(f"stream '{stream}': ahead must be longer than nothing")
        return self
