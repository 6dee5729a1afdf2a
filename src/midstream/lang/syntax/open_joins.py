"""Open joins: a JOIN without ON or USING of its own may end in one that comes later, and sqlglot tries both ways.

a JOIN b JOIN c ON ... ON ...     one open join: what is tried doubles with each
"""

from collections.abc import Sequence

from sqlglot import Token, TokenType

from midstream.lang.syntax.place import error_at

MOST_OPEN = 10
"""With so many open joins a text is read in a twentieth of a second."""
_ENDS = (TokenType.SEMICOLON, TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.COMMA)
"""What no condition of a join before can stand after."""


def refuse_open_joins(tokens: Sequence[Token], sql: str) -> None:
    """Refuse a text with so many joins without a condition that reading it would take for ever."""
    opened: list[Token | None] = [None]
    """By depth of parentheses: the last JOIN that waits for its condition."""
    count = 0
    for before, token in zip([None, *tokens], tokens, strict=False):
        kind = token.token_type
        if kind == TokenType.L_PAREN:
            opened.append(None)
        elif kind == TokenType.R_PAREN and len(opened) > 1:
            count += opened.pop() is not None
        elif kind == TokenType.JOIN:
            count += opened[-1] is not None
            crossed = before is not None and before.token_type == TokenType.CROSS
            opened[-1] = None if crossed else token
        elif kind in (TokenType.ON, TokenType.USING):
            opened[-1] = None
        elif kind in _ENDS:
            count += opened[-1] is not None
            opened[-1] = None
        if count > MOST_OPEN:
            message = (
                f"more than {MOST_OPEN} JOINs have no ON or USING of their own; write CROSS JOIN where none is meant"
            )
            raise error_at(message, sql, token.start)
