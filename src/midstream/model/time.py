"""Event time: integer microseconds, and the words people write for durations."""

import datetime as dt
import re
from fractions import Fraction

from midstream.model.errors import MidstreamError

FOREVER_US = 2**63 - 1
"""A deadline that never passes, and the place of a row that has not been evicted."""

LONGEST_US = 2**62
"""Durations are shorter, so that adding one to an event time is exact."""

NEVER, FOREVER = -(2**63), 2**63 - 1
"""Before and after every event time."""

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_UNITS_US = {
    "microsecond": 1,
    "us": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "sec": 1_000_000,
    "s": 1_000_000,
    "minute": 60_000_000,
    "min": 60_000_000,
    "m": 60_000_000,
    "hour": 3_600_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
    "d": 86_400_000_000,
    "week": 604_800_000_000,
}


def unit_us(unit: str) -> int | None:
    """Return the microseconds in one unit, or None for a word that is no unit.

    >>> unit_us("SECONDS"), unit_us("fortnight")
    (1000000, None)
    """
    word = unit.lower()
    return _UNITS_US.get(word) or _UNITS_US.get(word.removesuffix("s"))


def parse_duration(text: str | int) -> int:
    """Read a duration as microseconds.

    >>> parse_duration("5 seconds"), parse_duration("1.5 ms"), parse_duration(250)
    (5000000, 1500, 250)
    """
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise MidstreamError(f"{text!r} is not a duration; write for example '5 seconds' or '100 ms'")
    if isinstance(text, int):
        return _countable(text, text)
    match = re.fullmatch(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", text)
    scale = unit_us(match[2]) if match else None
    if match is None or scale is None:
        raise MidstreamError(f"'{text}' is not a duration; write for example '5 seconds' or '100 ms'")
    return _countable(round(Fraction(match[1]) * scale), text)


def _countable(width_us: int, text: str | int) -> int:
    """Refuse a duration that cannot be added to a time."""
    if abs(width_us) >= LONGEST_US:
        raise MidstreamError(f"'{text}' is too long to be counted in microseconds; less than 146,000 years is fine")
    return width_us


def format_duration(width_us: int) -> str:
    """Write a duration in the largest unit that divides it.

    >>> format_duration(90_000_000), format_duration(1_000_000), format_duration(1500)
    ('90 SECONDS', '1 SECOND', '1500 MICROSECONDS')
    """
    if width_us == 0:
        return "0 SECONDS"
    for unit in ("day", "hour", "minute", "second", "millisecond", "microsecond"):
        if width_us % _UNITS_US[unit] == 0:
            count = width_us // _UNITS_US[unit]
            return f"{count} {unit.upper()}{'' if count == 1 else 'S'}"
    raise AssertionError("every integer is a whole number of microseconds")


def format_instant(time_us: int) -> str:
    """Write an event time as people read it.

    >>> format_instant(1_500_000)
    '1970-01-01 00:00:01.500000'
    """
    try:
        return (EPOCH + dt.timedelta(microseconds=time_us)).strftime("%Y-%m-%d %H:%M:%S.%f")
    except OverflowError:
        return f"{time_us} us"


def parse_instant(value: int | str | dt.datetime) -> int:
    """Read an event time: integer microseconds, a timestamp or its text; without a zone it is taken as UTC.

    >>> parse_instant(5), parse_instant("1970-01-01 00:00:01"), parse_instant("1970-01-01T01:00:00+01:00")
    (5, 1000000, 0)
    """
    if type(value) is int:
        return value
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value)
        except ValueError as error:
            raise MidstreamError(f"'{value}' is not a timestamp; write for example '2024-01-31 12:00:00'") from error
    if not isinstance(value, dt.datetime):
        raise MidstreamError(f"{value!r} is not a timestamp; write for example '2024-01-31 12:00:00'")
    zoned = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
    return (zoned - EPOCH) // dt.timedelta(microseconds=1)
