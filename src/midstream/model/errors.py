"""Errors a user can cause, each one clear sentence that names the thing."""

from midstream.model.secrets import mask


class MidstreamError(Exception):
    """Anything a user can put right; the command line prints it and exits with 2. One line that shows no secrets."""

    def __init__(self, *said: object) -> None:
        super().__init__(*(mask(part) if isinstance(part, str) else part for part in said))

    def __str__(self) -> str:
        # What was given is quoted in it, and may hold anything: a line break, a NUL, half a character.
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in super().__str__())


class SqlError(MidstreamError):
    """A query text that cannot be parsed or bound, with the place in the text where known."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        self.line = line
        self.column = column
        place = f" (line {line}, column {column})" if line is not None and column is not None else ""
        super().__init__(message + place)


class PlanError(MidstreamError):
    """A plan that does not fit its query."""


class ScenarioError(MidstreamError):
    """A scenario file that asks for something that does not exist or makes no sense."""


class PipelineError(MidstreamError):
    """A pipeline file that asks for something that does not exist or makes no sense."""


class SourceError(MidstreamError):
    """Input that cannot be read as the stream it is said to be."""


class SinkError(MidstreamError):
    """Output that cannot be written."""


class StateError(MidstreamError):
    """Exported state that does not belong to the operator that is asked to load it."""


class BrokenFileError(MidstreamError):
    """A file that must last and is cut short, garbled or gone: it is named, with what to do."""


class MemoryLimitError(MidstreamError):
    """A query that needs more memory than there is."""
