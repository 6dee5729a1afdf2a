"""Aggregates written in Python: from a function or a class, or a file that has it, to what a query can call by name."""

import inspect
import runpy
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from midstream.lang.syntax.types import type_named
from midstream.local.toml_file import AggregateSpec
from midstream.model.errors import MidstreamError
from midstream.model.own_function import OwnFunction
from midstream.model.types import storage_type
from midstream.plan.aggregates import UserAggregate, check_aggregate_name


def user_aggregate(
    name: str, function: Callable[[pa.Array], Any] | type[Any], returns: str | pa.DataType
) -> UserAggregate:
    """Make an aggregate of a function of an Arrow array; `returns` is an SQL type such as DOUBLE, or an Arrow type.

    Of a class, an object is made for the values of each group, which `process` takes; it holds whatever it likes.
    """
    if not isinstance(name, str):
        raise MidstreamError(f"the name of an aggregate is text, not {name!r}")
    if inspect.isclass(function):
        function = _of_class(name, function)
    if not callable(function):
        raise MidstreamError(f"aggregate '{name}' is a function of an Arrow array, not {type(function).__name__}")
    if not isinstance(returns, str | pa.DataType):
        raise MidstreamError(f"aggregate '{name}' returns an SQL type such as DOUBLE or an Arrow type, not {returns!r}")
    try:
        gives = storage_type(returns) if isinstance(returns, pa.DataType) else type_named(returns)
    except MidstreamError as error:
        raise MidstreamError(f"aggregate '{name}' returns {error}") from error
    if gives is None:
        raise MidstreamError(f"aggregate '{name}' returns {returns}, a type that queries cannot use")
    return UserAggregate(name, OwnFunction(function), gives)


def _of_class(name: str, cls: type[Any]) -> Callable[[pa.Array], Any]:
    """Return a function that lets a new object of a class process the values it is given."""
    if not callable(getattr(cls, "process", None)):
        raise MidstreamError(f"aggregate '{name}' is the class {cls.__name__}, which has no process(rows)")
    return lambda rows: cls().process(rows)


def load_aggregates(specs: Iterable[AggregateSpec]) -> dict[str, UserAggregate]:
    """Load the functions of aggregates from their files."""
    out = {}
    for spec in specs:
        check_aggregate_name(spec.name)
        try:
            found = runpy.run_path(str(spec.file))
        except FileNotFoundError as error:
            raise MidstreamError(f"aggregate '{spec.name}': there is no file {spec.file}") from error
        except (Exception, SystemExit) as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise MidstreamError(f"aggregate '{spec.name}': {spec.file} cannot be run ({said})") from error
        if spec.function not in found:
            raise MidstreamError(f"aggregate '{spec.name}': {spec.file} has no function or class '{spec.function}'")
        out[spec.name.lower()] = user_aggregate(spec.name, found[spec.function], spec.returns)
    return out
