"""The SQL dialect: DuckDB's grammar with CQL windows behind streams, and functions kept as they are written.

    tokens -> take the windows out -> sqlglot parses the rest -> put each window on the table it stood behind

sqlglot never sees a window, so none of its private methods is overridden. Functions reach the binder by name with
their arguments in order; the function table of the plan room says what they mean.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.parsers.duckdb import DuckDBParser

from midstream.lang.place import error_at
from midstream.lang.window_clause import WindowClause, is_window, read_window

WINDOW = "midstream_window"
"""The key of `node.meta` under which a table keeps its `WindowClause`."""

_FUNCTIONS_WITH_GRAMMAR = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")


class MidstreamParser(DuckDBParser):
    """Take windows out of the tokens, parse, and give each to its table."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: DuckDBParser.FUNCTION_PARSERS[name] for name in _FUNCTIONS_WITH_GRAMMAR
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        "CASE": DuckDBParser.NO_PAREN_FUNCTION_PARSERS["CASE"]
    }

    def parse(self, raw_tokens: list[Token], sql: str) -> list[exp.Expr | None]:
        """Parse a text that may hold windows."""
        refuse_statements(raw_tokens, sql)
        refuse_later_clauses(raw_tokens, sql)
        rest, windows = take_windows(raw_tokens, sql)
        trees = super().parse(rest, sql)
        for tree in trees:
            for table in tree.find_all(exp.Table) if tree else ():
                give_windows(table, windows, sql)
        for clause in windows.values():
            raise error_at("a window belongs behind a stream in FROM", sql, clause.offset)
        return trees


class Midstream(DuckDB):
    """DuckDB's SQL with windows."""

    Parser = MidstreamParser


def take_windows(tokens: Sequence[Token], sql: str) -> tuple[list[Token], dict[int, WindowClause]]:
    """Split tokens into those of plain SQL and the windows, by the end of the token each window stands behind."""
    rest: list[Token] = []
    windows: dict[int, WindowClause] = {}
    index = 0
    while index < len(tokens):
        if not (rest and is_window(tokens, index)):
            rest.append(tokens[index])
            index += 1
            continue
        clause, index = read_window(tokens, index, sql)
        if rest[-1].end in windows:
            raise error_at("a stream has one window, but here is a second", sql, clause.offset)
        windows[rest[-1].end] = clause
    return rest, windows


def give_windows(table: exp.Table, windows: dict[int, WindowClause], sql: str) -> None:
    """Move the window that stands behind a table's name or alias onto the table."""
    alias = table.args.get("alias")
    for named in (table.this, alias.this if alias else None):
        end = named.meta.get("end") if isinstance(named, exp.Identifier) else None
        if end in windows:
            clause = windows.pop(end)
            if WINDOW in table.meta:
                raise error_at("a stream has one window, but here is a second", sql, clause.offset)
            table.meta[WINDOW] = clause


def refuse_statements(tokens: Sequence[Token], sql: str) -> None:
    """Refuse what does not start like a query, before sqlglot takes it for a command of some database."""
    first = next((t for t in tokens if t.token_type not in (TokenType.SEMICOLON, TokenType.L_PAREN)), None)
    if first is not None and first.text.upper() not in ("SELECT", "FROM", "WITH", "VALUES"):
        raise error_at(f"a query starts with SELECT, but here is '{first.text}'", sql, first.start)


def refuse_later_clauses(tokens: Sequence[Token], sql: str) -> None:
    """Refuse clauses that the language will have but has not yet."""
    for token, following in pairwise(tokens):
        if token.token_type != TokenType.VAR:
            continue
        words = token.text.upper(), following.text.upper()
        if words == ("HOP", "BY"):
            raise error_at("HOP BY is not supported yet", sql, token.start)
        if words[0] == "EMIT" and following.token_type == TokenType.VAR:
            raise error_at("EMIT is not supported yet", sql, token.start)


def keyword_offset(sql: str, word: str) -> int | None:
    """Return where a keyword stands in a text.

    >>> keyword_offset("SELECT DISTINCT x", "DISTINCT")
    7
    """
    found = (t.start for t in Midstream().tokenize(sql) if " ".join(t.text.upper().split()) == word)
    return next(found, None)
