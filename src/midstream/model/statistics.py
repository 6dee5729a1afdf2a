"""Statistics: what is known or guessed about the rows of a query."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Statistics:
    """The rows of each alias: how many are in its window, how many arrive per second, how many keys they have."""

    window_rows: dict[str, float] = field(default_factory=dict)
    rows_per_s: dict[str, float] = field(default_factory=dict)
    distinct: dict[tuple[int, str], float] = field(default_factory=dict)
    """Different values of an equality class (by number) in an alias."""

    @property
    def known(self) -> bool:
        """Tell whether there is anything to estimate from."""
        return bool(self.window_rows)
