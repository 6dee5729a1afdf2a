"""The window clause: `[RANGE 10 SECONDS]`, `[ROWS 100]`, `[ROWS 100 PARTITION BY k]` as written behind a stream."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from sqlglot import Token, TokenType

from midstream.lang.place import error_at
from midstream.model.errors import SqlError
from midstream.model.time import unit_us

_EXAMPLE = "write for example [RANGE 10 SECONDS] or [ROWS 100]"


@dataclass(frozen=True)
class WindowClause:
    """A window as written: its width in time or in rows, and the place of that number in the text.

    Invariant: either `width_us` or `rows` is given.
    """

    width_us: int | None = None
    rows: int | None = None
    partition_by: tuple[str, ...] = ()
    offset: int | None = None


def is_window(tokens: Sequence[Token], index: int) -> bool:
    """Tell whether a window clause starts at a token."""
    word = tokens[index + 1].text.upper() if index + 1 < len(tokens) else ""
    return tokens[index].token_type == TokenType.L_BRACKET and word in ("RANGE", "ROWS", "START")


def read_window(tokens: Sequence[Token], index: int, sql: str) -> tuple[WindowClause, int]:
    """Read the window clause that starts at a token; return it with the index behind it."""
    return _Reader(tokens, index + 1, sql).read()


class _Reader:
    """A cursor over the tokens of one window clause."""

    def __init__(self, tokens: Sequence[Token], index: int, sql: str) -> None:
        self.tokens = tokens
        self.index = index
        self.sql = sql

    def read(self) -> tuple[WindowClause, int]:
        kind = self.word()
        if kind == "START":
            raise self.error("a predicate window [START WHEN ...] is not supported yet")
        self.index += 1
        offset = self.offset()
        clause = self.range(offset) if kind == "RANGE" else self.rows(offset)
        if self.word() == "SLIDE":
            raise self.error("a window with SLIDE is not supported yet")
        self.expect("]")
        return clause, self.index

    def range(self, offset: int) -> WindowClause:
        if self.word() == "UNBOUNDED":
            raise self.error("an unbounded window is not supported: its state would grow forever")
        self.skip("INTERVAL")
        quoted = self.peek()
        if quoted and quoted.token_type == TokenType.STRING and " " in quoted.text.strip():
            amount_text, unit = quoted.text.strip().split(maxsplit=1)
            amount = self.number(amount_text)
        else:
            amount = self.signed_number()
            if self.word() in ("]", ""):
                raise self.error("[RANGE ...] needs a unit of time, for example SECONDS")
            unit = self.word()
        scale = unit_us(unit)
        if scale is None:
            raise self.error(f"'{unit}' is not a unit of time a window can have; {_EXAMPLE}")
        self.index += 1
        return WindowClause(width_us=round(amount * scale), offset=offset)

    def rows(self, offset: int) -> WindowClause:
        if self.word() == "UNBOUNDED":
            raise self.error("an unbounded window is not supported: its state would grow forever")
        count = self.signed_number()
        if count.denominator != 1:
            raise error_at(f"[ROWS ...] takes a whole number of rows; {_EXAMPLE}", self.sql, offset)
        partition_by: list[str] = []
        if self.skip("PARTITION BY"):
            partition_by.append(self.name())
            while self.skip(","):
                partition_by.append(self.name())
        return WindowClause(rows=int(count), partition_by=tuple(partition_by), offset=offset)

    def signed_number(self) -> Fraction:
        sign = -1 if self.skip("-") else 1
        token = self.peek()
        if token is None or token.token_type not in (TokenType.NUMBER, TokenType.STRING):
            raise self.error(f"a window needs a number here; {_EXAMPLE}")
        amount = self.number(token.text)
        self.index += 1
        return sign * amount

    def number(self, text: str) -> Fraction:
        try:
            return Fraction(Decimal(text.strip()))
        except (ArithmeticError, ValueError):
            raise self.error(f"'{text}' is not a number; {_EXAMPLE}") from None

    def name(self) -> str:
        """Read a column name, with or without the stream in front."""
        token = self.peek()
        if token is None or not (token.token_type == TokenType.IDENTIFIER or token.text.isidentifier()):
            raise self.error("PARTITION BY needs the name of a column")
        self.index += 1
        return self.name() if self.skip(".") else token.text

    def peek(self) -> Token | None:
        return self.tokens[self.index] if self.index < len(self.tokens) else None

    def word(self) -> str:
        token = self.peek()
        return " ".join(token.text.upper().split()) if token else ""

    def skip(self, word: str) -> bool:
        found = self.word() == word
        self.index += found
        return found

    def expect(self, word: str) -> None:
        if not self.skip(word):
            given = self.peek()
            found = f"'{given.text}'" if given else "the end of the text"
            raise self.error(f"expected {word} at the end of the window, but found {found}")

    def offset(self) -> int:
        token = self.peek()
        return token.start if token else len(self.sql)

    def error(self, message: str) -> SqlError:
        return error_at(message, self.sql, self.offset())
