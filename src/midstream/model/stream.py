"""A declared stream: its name, its columns and which of them is event time."""

from dataclasses import dataclass

import pyarrow as pa

from midstream.model.errors import SourceError
from midstream.model.names import is_text
from midstream.model.types import storage_type


@dataclass(frozen=True)
class StreamSchema:
    """What is known of a stream before its first row.

    Invariant: the time column exists and is a timestamp or an integer count of microseconds.
    """

    name: str
    columns: pa.Schema
    time: str

    def __post_init__(self) -> None:
        for what, name in (("a stream", self.name), (f"the time column of stream '{self.name}'", self.time)):
            if not is_text(name):
                raise SourceError(f"{what} has a name, which is text and not empty; {name!r} is none")
        try:
            names = self.columns.names
        except UnicodeDecodeError as error:
            said = f"stream '{self.name}' has a column whose name is not text in UTF-8: {error.object!r}"
            raise SourceError(said) from error
        index = self.columns.get_all_field_indices(self.time)
        if not index:
            known = ", ".join(names)
            raise SourceError(f"stream '{self.name}' has no time column '{self.time}'; its columns are {known}")
        declared = self.columns.field(index[0]).type
        if not (pa.types.is_timestamp(declared) or pa.types.is_integer(declared)):
            raise SourceError(
                f"stream '{self.name}': time column '{self.time}' is {declared}, "
                "but event time is a timestamp or integer microseconds"
            )
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            raise SourceError(f"stream '{self.name}' has more than one column named '{min(repeated)}'")

    def type_of(self, column: str) -> pa.DataType | None:
        """Return the type a column is held in, or None when queries cannot use it."""
        return storage_type(self.columns.field(column).type)
