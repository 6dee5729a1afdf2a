"""Data of a study: one table, whose rows are told apart by what their cases were given."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Columns = Mapping[str, Sequence[Any] | npt.NDArray[Any]]
"""What a case returns: columns of the same length."""


class Data:
    """A table with words for what claims and pictures ask of it."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    @staticmethod
    def of(parts: Iterable[tuple[Mapping[str, Any], Columns]]) -> "Data":
        """Put parts together: what each was given, and what it returned.

        >>> data = Data.of([({"way": "a"}, {"n": [1, 2]}), ({"way": "b"}, {"n": [3]})])
        >>> data.where(way="a")["n"].tolist(), data.value("n", way="b"), data.each("way")
        ([1, 2], 3, ['a', 'b'])
        """
        tables = []
        for given, columns in parts:
            made = pa.table({name: pa.array(values) for name, values in columns.items()})
            for name, value in given.items():
                if name not in made.column_names:
                    made = made.append_column(name, pa.array([value] * len(made)))
            tables.append(made)
        return Data(pa.concat_tables(tables, promote_options="permissive"))

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = self.table.column(name).to_numpy()
        return found

    def where(self, **wanted: Any) -> "Data":
        """Return the rows with these values."""
        keep = np.ones(len(self.table), np.bool_)
        for name, value in wanted.items():
            keep &= pc.fill_null(pc.equal(self.table.column(name), pa.scalar(value)), False).to_numpy()
        return Data(self.table.filter(pa.array(keep)))

    def value(self, name: str, **wanted: Any) -> Any:
        """Return the one value that the rows with these values have in a column."""
        values = self.where(**wanted).each(name)
        if len(values) != 1:
            raise ValueError(f"{len(values)} values of {name} where there should be one: {wanted}")
        return values[0]

    def each(self, name: str) -> list[Any]:
        """Return the different values of a column, in order of appearance."""
        return list(dict.fromkeys(self.table.column(name).to_pylist()))

    def split(self, name: str) -> Iterator[tuple[Any, "Data"]]:
        """Go through the values of a column and the rows that have them."""
        for value in self.each(name):
            yield value, self.where(**{name: value})

    def write(self, folder: Path, name: str) -> None:
        """Write it as Parquet and as JSON, column by column."""
        pq.write_table(self.table, folder / f"{name}.parquet")
        pa_json = {column: self.table.column(column).to_pylist() for column in self.table.column_names}
        (folder / f"{name}.json").write_text(_json(pa_json), encoding="utf-8")


def _json(columns: Mapping[str, list[Any]]) -> str:
    lines = ",\n ".join(f"{json.dumps(name)}: {json.dumps(values)}" for name, values in columns.items())
    return "{" + lines + "}\n"
