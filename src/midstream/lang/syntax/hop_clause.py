"""The hop clause at the end of a query: `HOP BY 30 SECONDS`, `HOP BY 30 SECONDS EMIT DELTA`, `HOP BY 100 ROWS`."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType

from midstream.lang.syntax.cursor import Cursor
from midstream.lang.syntax.place import error_at
from midstream.model.time import format_duration
from midstream.plan.algebra import Rel
from midstream.plan.query import COMPLETE, DELTA, HOP, MOST_HOP_US, Emit, Query

_EMITS: dict[str, Emit] = {"COMPLETE": COMPLETE, "DELTA": DELTA}
_LEVEL = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}


@dataclass(frozen=True)
class HopClause:
    """How far apart hops are, what each of them gives, and the place of the clause in the text."""

    hop_us: int | None
    emit: Emit
    offset: int | None = None
    rows: int | None = None
    """Rows between two hops, where rows are counted; then `hop_us` is None."""

    def query(self, root: Rel, text: str) -> Query:
        """Return the query of a tree that hops so."""
        return Query(root, HOP, self.emit, self.hop_us, text, self.rows)

    def __str__(self) -> str:
        every = f"{self.rows} ROWS" if self.hop_us is None else format_duration(self.hop_us)
        return f"HOP BY {every}" + (" EMIT DELTA" if self.emit == DELTA else "")


def take_hop(tokens: Sequence[Token], sql: str) -> tuple[list[Token], HopClause | None]:
    """Split tokens into those of plain SQL and the hop clause."""
    rest: list[Token] = []
    clause: HopClause | None = None
    index = depth = 0
    while index < len(tokens):
        token = tokens[index]
        depth += _LEVEL.get(token.token_type, 0)
        _refuse_emit(tokens, index, sql)
        if not _is_hop(tokens, index):
            rest.append(token)
            index += 1
            continue
        if clause is not None:
            raise error_at("a query has one HOP BY, but here is a second", sql, token.start)
        if depth > 0:
            raise error_at("HOP BY stands at the end of the whole query, not inside parentheses", sql, token.start)
        clause, index = _Reader(tokens, index, sql).read()
    return rest, clause


def _is_hop(tokens: Sequence[Token], index: int) -> bool:
    first, second = tokens[index], tokens[index + 1] if index + 1 < len(tokens) else None
    is_word = first.token_type == TokenType.VAR and second is not None
    return is_word and (first.text.upper(), second.text.upper() if second else "") == ("HOP", "BY")


def _refuse_emit(tokens: Sequence[Token], index: int, sql: str) -> None:
    """Refuse an EMIT that does not stand after HOP BY; alone, the word is a name like any other."""
    words = tokens[index : index + 2]
    if len(words) == 2 and all(t.token_type == TokenType.VAR for t in words) and words[0].text.upper() == "EMIT":
        message = "EMIT belongs after HOP BY; write for example HOP BY 30 SECONDS EMIT DELTA"
        raise error_at(message, sql, words[0].start)


class _Reader(Cursor):
    """A cursor over the tokens of the hop clause."""

    what = in_time = "HOP BY"
    example = "write for example HOP BY 30 SECONDS, or HOP BY 100 ROWS"
    after_number = ("EMIT", ";", ")", "")

    def read(self) -> tuple[HopClause, int]:
        """Read the clause; return it with the index after it."""
        offset = self.offset()
        self.index += 2
        if (rows := self.counted(offset)) is not None:
            return HopClause(None, self.ending(), offset, rows), self.index
        hop_us = self.duration()
        if not 0 < hop_us < MOST_HOP_US:
            message = f"a hop is longer than nothing: HOP BY {format_duration(hop_us)}"
            if hop_us > 0:
                message = "a hop this long cannot be counted in microseconds"
            raise error_at(message, self.sql, offset)
        return HopClause(hop_us, self.ending(), offset), self.index

    def counted(self, offset: int) -> int | None:
        """Read `100 ROWS`, if rows are counted."""
        begin = self.index
        self.skip("-")
        self.index += 1
        if self.word() not in ("ROWS", "ROW"):
            self.index = begin
            return None
        self.index = begin
        rows = self.signed_number()
        self.index += 1
        if rows.denominator != 1 or not 0 < rows < MOST_HOP_US:
            raise error_at("a hop is after a whole number of rows; write for example HOP BY 100 ROWS", self.sql, offset)
        return int(rows)

    def ending(self) -> Emit:
        """Read what is emitted; nothing may follow."""
        emit = self.emit() if self.skip("EMIT") else COMPLETE
        if self.word() not in (";", ""):
            raise self.error(f"HOP BY ends the query, but after it is {self.found()}")
        return emit

    def emit(self) -> Emit:
        emit = _EMITS.get(self.word())
        if emit is None:
            raise self.error(f"EMIT takes COMPLETE or DELTA, but here is {self.found()}")
        self.index += 1
        return emit
