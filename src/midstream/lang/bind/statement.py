"""A statement: the text of a query and what is declared around it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from midstream.lang.syntax.dialect import keyword_offset
from midstream.lang.syntax.place import error_at, offset_of
from midstream.model.stream import StreamSchema
from midstream.plan.aggregates import AGGREGATE_SYNONYMS, AGGREGATES, OTHER_AGGREGATES, UserAggregate
from midstream.plan.capabilities import LIMITS, cannot


@dataclass(frozen=True)
class Statement:
    """What a query is bound against; `text` is empty for a query that was not written.

    Invariant: the names of aggregates are in lower case.
    """

    catalog: Sequence[StreamSchema]
    text: str = ""
    aggregates: Mapping[str, UserAggregate] = field(default_factory=dict)
    hops: bool = False
    """Whether it ends with HOP BY."""

    def check(self, limit: str, offset: int | None, **named: object) -> None:
        """Refuse something that is written, if queries like this one cannot do it yet."""
        if LIMITS[limit].hops in (None, self.hops):
            raise error_at(cannot(limit, **named), self.text, offset)

    def is_aggregate(self, name: str) -> bool:
        """Tell whether a function name is an aggregate."""
        key = name.lower()
        return key in self.aggregates or key in AGGREGATES or key in AGGREGATE_SYNONYMS or key in OTHER_AGGREGATES

    def aggregate_calls(self, select: exp.Select) -> Iterator[exp.Expr]:
        """Yield the aggregate calls of a select list; those of window functions and subqueries are not its own."""
        for entry in select.expressions:
            for node in entry.walk(prune=lambda n: isinstance(n, exp.Query | exp.Window)):
                if isinstance(node, exp.Anonymous) and self.is_aggregate(node.name):
                    yield node

    def grouping(self, select: exp.Select) -> tuple[str, int | None] | None:
        """Return what makes a SELECT one of aggregates, and where that stands, or None."""
        for call in self.aggregate_calls(select):
            return call.name.upper(), offset_of(call)
        for key, word in (("group", "GROUP BY"), ("having", "HAVING")):
            if select.args.get(key):
                return word, keyword_offset(self.text, word)
        return None
