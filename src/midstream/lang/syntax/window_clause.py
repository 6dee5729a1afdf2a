"""The window clause, as written after a stream or a subquery.

[RANGE 10 SECONDS]    [RANGE 10 SECONDS SLIDE 5 SECONDS]
[ROWS 100]    [ROWS 100 SLIDE 10]    [ROWS 100 SLIDE 10 PARTITION BY k]    [START WHEN p END WHEN q]
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType, exp

from midstream.lang.syntax.cursor import Cursor
from midstream.lang.syntax.place import error_at
from midstream.model.time import format_duration
from midstream.plan.expr import quoted
from midstream.plan.window import PredicateWindow, RangeInstances

KINDS = ("RANGE", "ROWS", "START")
"""What a window begins with."""
Condition = Callable[[Sequence[Token]], exp.Expr]
"""How the tokens of a condition are parsed."""

_CLOSES = {
    TokenType.L_PAREN: TokenType.R_PAREN,
    TokenType.L_BRACKET: TokenType.R_BRACKET,
    TokenType.L_BRACE: TokenType.R_BRACE,
    TokenType.CASE: TokenType.END,
}
_OPENS = (TokenType.L_PAREN, TokenType.COMMA)
"""What an array stands after, and no window."""
_CLAUSES = (
    TokenType.SELECT, TokenType.FROM, TokenType.JOIN, TokenType.ON, TokenType.USING, TokenType.WHERE,
    TokenType.GROUP_BY, TokenType.HAVING,
)  # fmt: skip
"""Words that say what follows."""


@dataclass(frozen=True)
class WindowClause:
    """A window as written: its width in time or in rows, how far it moves, and the place of its number in the text.

    Invariant: `width_us`, `rows`, or both `start` and `end` are given; `slide_us` goes with `width_us`, `slide` with
    `rows`.
    """

    width_us: int | None = None
    rows: int | None = None
    partition_by: tuple[tuple[str, str], ...] = ()
    """Columns, each with the alias that is written in front of it, if there is one."""
    offset: int | None = None
    slide_us: int | None = None
    slide: int | None = None
    start: exp.Expr | None = None
    end: exp.Expr | None = None

    @property
    def has_instances(self) -> bool:
        """Tell whether the window is a sequence of instances, for aggregates."""
        return self.slide_us is not None or self.slide is not None or self.start is not None

    @property
    def called(self) -> str:
        """Return what people call a window of its kind, if it has instances."""
        return RangeInstances.called if self.start is None else PredicateWindow.called

    def __str__(self) -> str:
        if self.start is not None and self.end is not None:
            return f"[START WHEN {self.start.sql('duckdb')} END WHEN {self.end.sql('duckdb')}]"
        if self.width_us is not None:
            slide = f" SLIDE {format_duration(self.slide_us)}" if self.slide_us is not None else ""
            return f"[RANGE {format_duration(self.width_us)}{slide}]"
        slide = f" SLIDE {self.slide}" if self.slide is not None else ""
        by = f" PARTITION BY {', '.join(_column(*c) for c in self.partition_by)}" if self.partition_by else ""
        return f"[ROWS {self.rows}{slide}{by}]"


def _column(alias: str, name: str) -> str:
    return f"{quoted(alias)}.{quoted(name)}" if alias else quoted(name)


def is_window(tokens: Sequence[Token], index: int, before: Sequence[Token]) -> bool:
    """Tell whether a window clause starts at a token: by the word it begins with, or by what stands before it."""
    if not before or tokens[index].token_type != TokenType.L_BRACKET:
        return False
    word = tokens[index + 1].text.upper() if index + 1 < len(tokens) else ""
    return word in KINDS or (before[-1].token_type not in _OPENS and _in_from(before))


def _in_from(before: Sequence[Token]) -> bool:
    """Tell whether tokens end inside FROM, not in a condition of it."""
    depth = 0
    for token in reversed(before):
        if token.token_type == TokenType.R_PAREN:
            depth += 1
        elif token.token_type == TokenType.L_PAREN:
            depth = max(depth - 1, 0)
        elif not depth and token.token_type in _CLAUSES:
            return token.token_type in (TokenType.FROM, TokenType.JOIN)
    return False


def read_window(tokens: Sequence[Token], index: int, sql: str, condition: Condition) -> tuple[WindowClause, int]:
    """Read the window clause that starts at a token; return it with the index after it."""
    return _Reader(tokens, index + 1, sql, condition).read()


class _Reader(Cursor):
    """A cursor over the tokens of one window clause."""

    def __init__(self, tokens: Sequence[Token], index: int, sql: str, condition: Condition) -> None:
        super().__init__(tokens, index, sql)
        self.condition = condition

    def read(self) -> tuple[WindowClause, int]:
        kind, offset = self.word(), self.offset()
        self.index += kind in KINDS
        if self.word() == "UNBOUNDED":
            raise self.error("an unbounded window is not supported: its state would grow forever")
        match kind:
            case "RANGE":
                clause = self.range(self.offset())
            case "ROWS":
                clause = self.rows(self.offset())
            case "START":
                clause = self.predicate(offset)
            case "]":
                raise self.error(f"a window cannot be empty; {self.example}")
            case _:
                message = f"a window begins with RANGE, ROWS or START WHEN, not with {self.found()}"
                raise self.error(f"{message}; {self.example}")
        self.expect("]")
        return clause, self.index

    def range(self, offset: int) -> WindowClause:
        width_us = self.duration()
        slide_us = self.duration() if self.skip("SLIDE") else None
        return WindowClause(width_us=width_us, slide_us=slide_us, offset=offset)

    def rows(self, offset: int) -> WindowClause:
        count = self.count()
        partition_by = self.partition()
        slide = self.count() if self.skip("SLIDE") else None
        if not partition_by:
            partition_by = self.partition()
        return WindowClause(rows=count, slide=slide, partition_by=partition_by, offset=offset)

    def partition(self) -> tuple[tuple[str, str], ...]:
        names: list[tuple[str, str]] = []
        if self.skip("PARTITION BY"):
            names.append(self.name())
            while self.skip(","):
                names.append(self.name())
        return tuple(names)

    def count(self) -> int:
        offset = self.offset()
        count = self.signed_number()
        if count.denominator != 1:
            raise error_at(f"[ROWS ...] takes a whole number of rows; {self.example}", self.sql, offset)
        return int(count)

    def predicate(self, offset: int) -> WindowClause:
        self.expect_word("WHEN", "START")
        start = self.condition_until(TokenType.END, "START WHEN")
        self.expect_word("END", "START WHEN ...")
        self.expect_word("WHEN", "END")
        end = self.condition_until(TokenType.R_BRACKET, "END WHEN")
        return WindowClause(start=start, end=end, offset=offset)

    def condition_until(self, stop: TokenType, clause: str) -> exp.Expr:
        """Parse the tokens up to one that stands outside parentheses, brackets and CASE."""
        first = self.index
        awaited: list[TokenType] = []
        while (token := self.peek()) is not None:
            kind = token.token_type
            if kind in _CLOSES:
                awaited.append(_CLOSES[kind])
            elif awaited and kind == awaited[-1]:
                awaited.pop()
            elif kind in (stop, TokenType.R_BRACKET):
                break
            self.index += 1
        if self.index == first:
            raise self.error(f"{clause} needs a condition; write for example [START WHEN x > 5 END WHEN x < 2]")
        return self.condition(self.tokens[first : self.index])

    def name(self, alias: str = "") -> tuple[str, str]:
        """Read a column name, with or without the alias in front."""
        token = self.peek()
        if token is None or not (token.token_type == TokenType.IDENTIFIER or token.text.isidentifier()):
            raise self.error("PARTITION BY needs the name of a column")
        self.index += 1
        return self.name(token.text) if self.skip(".") else (alias, token.text)

    def expect_word(self, word: str, after: str) -> None:
        if not self.skip(word):
            raise self.error(f"expected {word} after {after} in the window, but found {self.found()}")

    def expect(self, word: str) -> None:
        if not self.skip(word):
            raise self.error(f"expected {word} at the end of the window, but found {self.found()}")
