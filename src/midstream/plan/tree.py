"""Join order as text: `(((a b) c) d)`, aliases as leaves."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from midstream.model.errors import PlanError

HOP_WORDS = re.compile(r"\b(?:modes|working|hop)=[^\s()]*")


@dataclass(frozen=True)
class Pair:
    """Two subtrees joined."""

    left: "Tree"
    right: "Tree"

    def __str__(self) -> str:
        return f"({tree_text(self.left)} {tree_text(self.right)})"


Tree = str | Pair


def tree_text(tree: Tree) -> str:
    """Write a join order; an alias that would not be read back as one word is quoted.

    >>> tree_text(Pair("a", "my b"))
    '(a "my b")'
    """
    if isinstance(tree, Pair):
        return str(tree)
    return tree if re.fullmatch(r'[^\s()"]+', tree) else '"' + tree.replace('"', '""') + '"'


def leaves(tree: Tree) -> Iterator[str]:
    """Yield the aliases from left to right."""
    if isinstance(tree, str):
        yield tree
    else:
        yield from leaves(tree.left)
        yield from leaves(tree.right)


def parse_tree(text: str, aliases: tuple[str, ...]) -> Tree:
    """Read a join order and check that it names each alias once.

    >>> str(parse_tree("((a b) (c d))", ("a", "b", "c", "d")))
    '((a b) (c d))'
    """
    for word in HOP_WORDS.findall(text):
        if word not in aliases:
            raise PlanError(f"{word} is for plans of hopping queries (HOP BY); this one is a join order such as (a b)")
    tokens = re.findall(r'[()]|"(?:[^"]|"")*"|[^\s()"]+|"', text)
    try:
        tree, rest = _read(tokens, text)
    except RecursionError:
        raise PlanError("the plan is nested too deeply") from None
    if rest:
        raise PlanError(f"plan '{text}' goes on after its end with '{rest[0]}'")
    check_leaves(tree, aliases)
    return tree


def check_leaves(tree: Tree, aliases: tuple[str, ...]) -> None:
    """Refuse a tree that does not name each alias once."""
    text, named = tree_text(tree), list(leaves(tree))
    for leaf in named:
        if leaf not in aliases:
            raise PlanError(f"plan '{text}' names '{leaf}', which is no alias of the query ({', '.join(aliases)})")
        if named.count(leaf) > 1:
            raise PlanError(f"plan '{text}' names '{leaf}' twice")
    for alias in aliases:
        if alias not in named:
            raise PlanError(f"plan '{text}' leaves out '{alias}'")


def _read(tokens: list[str], text: str) -> tuple[Tree, list[str]]:
    if not tokens:
        raise PlanError(f"plan '{text}' ends too early")
    first, rest = tokens[0], tokens[1:]
    if first == ")":
        raise PlanError(f"plan '{text}' has a ')' with nothing before it")
    if first != "(":
        return (first[1:-1].replace('""', '"') if len(first) > 1 and first[0] == '"' else first), rest
    left, rest = _read(rest, text)
    if rest and rest[0] == ")":
        if isinstance(left, str):  # "(a)" is how a plan of one stream may be written
            return left, rest[1:]
        raise PlanError(f"plan '{text}' has a pair of parentheses around one subtree; a join has two inputs")
    right, rest = _read(rest, text)
    if not rest or rest[0] != ")":
        raise PlanError(f"plan '{text}' joins more than two inputs at once or lacks a ')'; write ((a b) c)")
    return Pair(left, right), rest[1:]


def left_deep(aliases: tuple[str, ...]) -> Tree:
    """Join the aliases one after the other.

    >>> str(left_deep(("a", "b", "c")))
    '((a b) c)'
    """
    tree: Tree = aliases[0]
    for alias in aliases[1:]:
        tree = Pair(tree, alias)
    return tree
