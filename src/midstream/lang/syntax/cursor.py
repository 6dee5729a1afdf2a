"""A cursor over the tokens of a clause that sqlglot does not read: words, numbers and durations."""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from sqlglot import Token, TokenType

from midstream.lang.syntax.place import error_at
from midstream.model.errors import SqlError
from midstream.model.time import unit_us

MOST_DIGITS = 100
"""A number with more digits before or after the point is none that a clause could have."""


class Cursor:
    """A place among tokens that moves on with what is read; errors point to it."""

    what, in_time = "a window", "[RANGE ...]"
    """What the clause is called in errors, and the form of it that has a duration."""
    example = "write for example [RANGE 10 SECONDS] or [ROWS 100]"
    after_number: tuple[str, ...] = ("]", "SLIDE", "")
    """What may stand after a number when its unit is forgotten."""

    def __init__(self, tokens: Sequence[Token], index: int, sql: str) -> None:
        self.tokens = tokens
        self.index = index
        self.sql = sql

    def duration(self) -> int:
        """Read a duration and return it in microseconds."""
        self.skip("INTERVAL")
        quoted = self.peek()
        if quoted and quoted.token_type == TokenType.STRING and " " in quoted.text.strip():
            amount_text, unit = quoted.text.strip().split(maxsplit=1)
            amount = self.number(amount_text)
        else:
            amount = self.signed_number()
            if self.word() in self.after_number:
                raise self.error(f"{self.in_time} needs a unit of time, for example SECONDS")
            unit = self.word()
        scale = unit_us(unit)
        if scale is None:
            raise self.error(f"'{unit}' is not a unit of time {self.what} can have; {self.example}")
        self.index += 1
        return round(amount * scale)

    def signed_number(self) -> Fraction:
        """Read a number that may have a minus in front."""
        sign = -1 if self.skip("-") else 1
        token = self.peek()
        if token is None or token.token_type not in (TokenType.NUMBER, TokenType.STRING):
            raise self.error(f"{self.what} needs a number here; {self.example}")
        amount = self.number(token.text)
        self.index += 1
        return sign * amount

    def number(self, text: str) -> Fraction:
        """Return the number that a text is."""
        try:
            found = Decimal(text.strip())
            if found and abs(found.adjusted()) > MOST_DIGITS:
                raise ValueError(text)
            return Fraction(found)
        except (ArithmeticError, ValueError):
            raise self.error(f"'{text}' is not a number; {self.example}") from None

    def peek(self) -> Token | None:
        """Return the token here, or None at the end."""
        return self.tokens[self.index] if self.index < len(self.tokens) else None

    def word(self) -> str:
        """Return the text of the token here in capitals."""
        token = self.peek()
        return " ".join(token.text.upper().split()) if token else ""

    def skip(self, word: str) -> bool:
        """Move over a word; tell whether it was there."""
        found = self.word() == word
        self.index += found
        return found

    def found(self) -> str:
        """Say what stands here."""
        given = self.peek()
        return f"'{given.text}'" if given else "the end of the text"

    def offset(self) -> int:
        """Return where the token here starts in the text."""
        token = self.peek()
        return token.start if token else len(self.sql)

    def error(self, message: str) -> SqlError:
        """Make an error about this place."""
        return error_at(message, self.sql, self.offset())
