"""Names: those from files become part of a path only when they are plain; those that users give are text."""

import re
from collections.abc import Iterable, Iterator
from typing import TypeGuard

from midstream.model.errors import MidstreamError

_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,199}")
_IDENTITY = re.compile(r"[0-9a-f]{8,64}")
MOST_DIGITS = 20


def is_name(found: object) -> bool:
    """Tell whether something is a text that names a file, and none elsewhere.

    >>> is_name("00000000000000000042-0badcafe"), is_name("../../x"), is_name(".hidden"), is_name("a/b"), is_name(7)
    (True, False, False, False, False)
    """
    return isinstance(found, str) and _NAME.fullmatch(found) is not None


def is_identity(found: object) -> bool:
    """Tell whether something is the identity of a query: hexadecimal digits.

    >>> is_identity("0123456789abcdef" * 2), is_identity("../../x")
    (True, False)
    """
    return isinstance(found, str) and _IDENTITY.fullmatch(found) is not None


def is_text(found: object) -> bool:
    """Tell whether something is a text that names something.

    >>> is_text("a b"), is_text(""), is_text(None)
    (True, False, False)
    """
    return isinstance(found, str) and found != ""


def checked_name(what: str, name: object) -> str:
    """Return the name of something, or refuse it."""
    if not isinstance(name, str) or not name.strip():
        raise MidstreamError(f"{what} has a name, which is text and not empty; {name!r} is none")
    return name


def digits(text: str) -> int | None:
    """Return the number that a text is, written in the digits 0 to 9, or None.

    >>> digits("0012"), digits("-1"), digits("²"), digits("٣"), digits("")
    (12, None, None, None, None)
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else None


def numbers_among(names: Iterable[str], ending: str, width: int, most: int = 10**10) -> Iterator[int]:
    """Yield the numbers of files that are named by one, in so many digits at least; others that lie there are nobody's.

    >>> list(numbers_among(["0012.over", "²².over", "12.over", "0012.txt", "9" * 20 + ".over"], ".over", 4))
    [12]
    """
    for name in names:
        number = digits(name.removesuffix(ending))
        if number is not None and number < most and name == f"{number:0{width}d}{ending}":
            yield number


def is_moment(found: object) -> TypeGuard[float]:
    """Tell whether something is a time in seconds since 1970, and no year that nobody will see.

    >>> is_moment(1.5e9), is_moment(float("nan")), is_moment("now"), is_moment(True), is_moment(10**400)
    (True, False, False, False, False)
    """
    return isinstance(found, int | float) and not isinstance(found, bool) and -1e11 < found < 1e11


def is_number(found: object, least: int = 0) -> bool:
    """Tell whether something is a whole number that counts something.

    >>> is_number(3), is_number(0, least=1), is_number(True), is_number("3")
    (True, False, False, False)
    """
    return type(found) is int and least <= found < 2**63
