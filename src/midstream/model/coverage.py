"""Coverage: which entries a state is known to hold."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Coverage:
    """A state is complete, or incomplete since a sequence number.

    Invariant: a state incomplete since `s` holds every live entry whose latest row is at or after `s`.
    """

    since: int | None = None

    @property
    def complete(self) -> bool:
        """Tell whether every live entry is present."""
        return self.since is None

    def __str__(self) -> str:
        return "complete" if self.complete else f"incomplete since {self.since}"


COMPLETE = Coverage()
