"""Bare tree: a pipeline without anybody who could migrate it, to see what that costs."""

from midstream.migrate.migrator import Migrator
from midstream.model.batch import Arrival, Results


class BareTree(Migrator):
    """A pipeline that goes on with its plan for ever."""

    def on_rows(self, arrivals: dict[str, Arrival], now_us: int, seq: int) -> list[Results]:
        """Take in a slice and return its results."""
        return self.pipeline.on_rows(arrivals, now_us, seq)

    def work(self, seq: int) -> None:
        """Do nothing."""

    def next_cut_us(self) -> int | None:
        """Nothing happens here."""
        return None
