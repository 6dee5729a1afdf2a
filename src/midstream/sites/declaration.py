"""What a user declares of sites: where each stream arrives, how sites are connected, and how plans are modified."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from midstream.model.errors import PlanError
from midstream.plan.query import Query
from midstream.sites.plan import QUERY_NODE

Update = Literal["centralized", "distributed", "off"]
UPDATES: tuple[Update, ...] = ("centralized", "distributed", "off")
THRESHOLD = 0.1
"""How much the cost at a node changes before its statistics are reported."""


@dataclass(frozen=True)
class Link:
    """How two sites are connected, in one direction: what a message waits, and how fast bytes follow."""

    latency_us: int = 5_000
    bytes_per_s: float = 128_000.0


DEFAULT_LINK = Link()
"""A link of which nothing is said: that of the paper's experiments, 5 ms and 1,024 kbit/s."""


@dataclass(frozen=True)
class Declared:
    """Streams at their sites, by alias in declaration order; several nodes may lie at one site.

    A link holds for the other direction, too, where that is not declared by itself.
    """

    sites: Mapping[str, str]
    """The site of each alias."""
    query_site: str
    """Where results go to: the site of N_0."""
    update: Update = "centralized"
    threshold: float = THRESHOLD
    links: Mapping[tuple[str, str], Link] | None = None
    other_links: Link = DEFAULT_LINK
    """Any link that is not declared."""

    def site_of(self, node: str) -> str:
        """Return the site at which a node lies; a node is named by the alias of its stream."""
        return self.query_site if node == QUERY_NODE else self.sites[node]

    def link(self, source: str, target: str) -> Link | None:
        """Return the link from one node to another; None: they lie at one site, and sending costs nothing."""
        ends = self.site_of(source), self.site_of(target)
        if ends[0] == ends[1]:
            return None
        known = self.links or {}
        return known.get(ends) or known.get((ends[1], ends[0])) or self.other_links

    @property
    def central(self) -> str:
        """Return the node that makes plans where they are made centrally (N_q): one at the query site."""
        return next((alias for alias, site in self.sites.items() if site == self.query_site), QUERY_NODE)


@dataclass(frozen=True)
class DeclaredSites:
    """What a scenario declares, by stream, before it is known which of its streams a query reads."""

    sites: Mapping[str, str] = field(default_factory=dict)
    """The site of each stream that has one."""
    query_site: str | None = None
    update: Update = "centralized"
    threshold: float = THRESHOLD
    links: Mapping[tuple[str, str], Link] | None = None
    other_links: Link = DEFAULT_LINK

    def of(self, query: Query) -> Declared:
        """Return the declaration of a query's aliases; results go to the site of the first one unless said otherwise.

        Refuses a stream without a site, and a site of a link or of the results that no stream arrives at.
        """
        for source in query.sources:
            name = source.stream.name
            if name not in self.sites:
                raise PlanError(f"stream '{name}' has no site; write site = \"...\" below [streams.{name}]")
        sites = {source.alias: self.sites[source.stream.name] for source in query.sources}
        query_site = self.query_site or next(iter(sites.values()))
        known = {*self.sites.values(), query_site}
        for end in (end for ends in self.links or {} for end in ends):
            if end not in known:
                raise PlanError(
                    f"[[links]] names '{end}', and no stream is there; sites are {', '.join(sorted(known))}"
                )
        return Declared(sites, query_site, self.update, self.threshold, self.links, self.other_links)
