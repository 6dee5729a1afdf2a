"""A source: one entry of FROM."""

from dataclasses import dataclass

from midstream.model.stream import StreamSchema
from midstream.plan.expr import Column, quoted
from midstream.plan.window import RowsWindow, Window


@dataclass(frozen=True)
class Source:
    """A stream read under an alias through a window.

    `position` is the stream's place in declaration order; it breaks ties in time.
    """

    alias: str
    stream: StreamSchema
    position: int
    window: Window | None = None

    @property
    def partition_by(self) -> tuple[Column, ...]:
        """Return the columns that a window of rows counts by."""
        return self.window.partition_by if isinstance(self.window, RowsWindow) else ()

    @property
    def example(self) -> str:
        """Write the source as it could be written with a window."""
        alias = f" {self.alias}" if self.alias != self.stream.name else ""
        return f"{self.stream.name} [RANGE 10 SECONDS]{alias}"

    def __str__(self) -> str:
        window = f" {self.window}" if self.window else ""
        alias = f" {quoted(self.alias)}" if self.alias != self.stream.name else ""
        return f"{quoted(self.stream.name)}{window}{alias}"
