"""A picture of sites and what is shipped between them: a column for each site, an arrow for each two that are linked.

         tokyo        osaka        berlin
           │            │             │
    S_a    ├──12 kB/s──▶│             │
    S_b    │            ├───4 kB/s───▶│

Every arrow has a line of its own, so nothing lies over anything; it is as thick as it carries bytes. The file needs no
other file.
"""

from collections.abc import Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from textwrap import wrap

from midstream.local.explain_sites import SitesExplained
from midstream.model.errors import SinkError
from midstream.sites.plan import QUERY_NODE
from midstream.sites.traffic import Shipped

LETTER, LINE = 7.3, 16
"""Pixels of a letter and of a line of text, at 12 pixels in a font whose letters are all as wide."""
WRAPPED, LEAST_COLUMN, BELOW, MOST_THICK = 44, 150, 30, 7.0


def sites_picture(explained: SitesExplained) -> str:
    """Return the picture as SVG."""
    return _Picture(explained).draw()


def write_picture(place: Path, drawn: str) -> None:
    """Write a picture to a file."""
    try:
        place.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise SinkError(f"cannot write {place}: {error.strerror}") from error


class _Picture:
    """One picture while it is drawn, from top to bottom."""

    def __init__(self, explained: SitesExplained) -> None:
        self._explained, network = explained, explained.network
        self._sites = list(dict.fromkeys((*network.sites.values(), network.query_site)))
        self._heads = {site: self._head(site) for site in self._sites}
        self._links = _by_link(explained)
        self._gutter = 20 + LETTER * max((len(line) for _, _, _, lines in self._links for line in lines), default=10)
        letters = max(len(line) for lines in self._heads.values() for line in lines)
        self._column = max(LEAST_COLUMN, letters * LETTER + 40)
        self._most = max((total for _, _, total, _ in self._links), default=1.0) or 1.0
        self._drawn: list[str] = []

    def _head(self, site: str) -> list[str]:
        """Return what is said above the column of a site: its name, its nodes, the windows they keep."""
        explained, network = self._explained, self._explained.network
        lines = [site]
        for alias in network.sites:
            if network.site_of(alias) == site:
                kept = ", ".join(f"W_{stream}" for stream in explained.sets[alias].windows)
                lines += [f"N_{alias}", *wrap(f"keeps {kept}" if kept else "keeps no window", 26)]
        return [*lines, f"N_{QUERY_NODE}: results"] if network.query_site == site else lines

    def _x(self, site: str) -> float:
        return self._gutter + self._column * (self._sites.index(site) + 0.5)

    def draw(self) -> str:
        top = 30 + LINE * max(len(lines) for lines in self._heads.values())
        y = float(top + BELOW)
        for source, target, total, lines in self._links:
            self._arrow(y, source, target, total, lines)
            y += max(LINE * len(lines), LINE) + BELOW
        bottom, width = y, self._gutter + self._column * len(self._sites) + 10
        columns = [self._site(site, top, bottom) for site in self._sites]
        network = self._explained.network
        title = f"Flows between sites, update {network.update}"
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{bottom + 20:.0f}" '
            f'viewBox="0 0 {width:.0f} {bottom + 20:.0f}" font-family="monospace" font-size="12">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width:.0f}" height="{bottom + 20:.0f}" fill="white"/>',
            *columns,
            *self._drawn,
            "</svg>",
        ]
        return "\n".join(parts) + "\n"

    def _site(self, site: str, top: float, bottom: float) -> str:
        x, width = self._x(site), self._column - 16
        lines = [_text(x, 34 + LINE * k, line, "middle", bold=k == 0) for k, line in enumerate(self._heads[site])]
        box = f'<rect x="{x - width / 2:.1f}" y="14" width="{width:.1f}" height="{top - 14:.1f}" rx="6"'
        line = f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" stroke="#b8c4d0"'
        return "\n".join([f'{box} fill="#eef3f8" stroke="#7a8ca0"/>', f'{line} stroke-dasharray="3 3"/>', *lines])

    def _arrow(self, y: float, source: str, target: str, total: float, flows: Sequence[str]) -> None:
        """Draw an arrow in its own line, its bytes above it, its flows on the left."""
        start, end = self._x(source), self._x(target)
        way = 1 if end > start else -1
        thick = 1 + (MOST_THICK - 1) * total / self._most
        tip = 7 + thick
        points = f"{end:.1f},{y:.1f} {end - way * tip:.1f},{y - tip / 2:.1f} {end - way * tip:.1f},{y + tip / 2:.1f}"
        label = rate_text(total)
        beside = start + way * self._column / 2
        self._drawn += [
            f'<line x1="{start:.1f}" y1="{y:.1f}" x2="{end - way * tip:.1f}" y2="{y:.1f}" stroke="#2b6cb0" '
            f'stroke-width="{thick:.1f}"/>',
            f'<polygon points="{points}" fill="#2b6cb0"/>',
            _text(beside, y - thick / 2 - 4, label, "middle"),
            *(_text(self._gutter - 10, y + 4 + LINE * k, line, "end") for k, line in enumerate(flows)),
        ]


def _by_link(explained: SitesExplained) -> list[tuple[str, str, float, list[str]]]:
    """Return what goes from one site to another: both sites, bytes per second, the flows in lines."""
    network = explained.network

    def ends(s: Shipped) -> tuple[str, str]:
        return network.site_of(s.source), network.site_of(s.target)

    found = []
    for (source, target), group in groupby(sorted(explained.shipped, key=ends), key=ends):
        flows = list(group)
        names = ", ".join(dict.fromkeys(str(s.flow) for s in flows))
        found.append((source, target, sum(s.bytes_per_s for s in flows), wrap(names, WRAPPED)))
    order = list(dict.fromkeys((*network.sites.values(), network.query_site)))
    return sorted(found, key=lambda link: (order.index(link[0]), order.index(link[1])))


def _text(x: float, y: float, text: str, anchor: str, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'


def rate_text(bytes_per_s: float) -> str:
    """Return bytes per second as people read them.

    >>> rate_text(12_340), rate_text(56), rate_text(7_800_000)
    ('12.3 kB/s', '56 B/s', '7.8 MB/s')
    """
    for size, unit in ((1e6, "MB/s"), (1e3, "kB/s")):
        if bytes_per_s >= size:
            return f"{bytes_per_s / size:,.1f} {unit}"
    return f"{bytes_per_s:,.0f} B/s"
