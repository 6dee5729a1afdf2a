"""What the sites of a join report, put together: messages by kind, bytes by link, modifications of the plan."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class SitesAccount:
    """What sites have reported so far: each says in every micro-batch what it has sent since the query began."""

    latest: list[Mapping[str, Any]] = field(default_factory=list)
    """Of each site."""
    modifications: dict[int, dict[str, Any]] = field(default_factory=dict)

    def see(self, reports: Iterable[Mapping[str, Any]]) -> None:
        """Take what sites report of a micro-batch."""
        self.latest = list(reports)
        for migrated in (m for report in self.latest for m in report["migrated"]):
            number, node = migrated["number"], migrated["node"]
            known = {"number": number, "position": migrated["position_us"], "affected": [], "to": {}}
            found = self.modifications.setdefault(number, known)
            found["affected"].append(node)
            found["to"][node] = migrated["operators"]

    def to_dict(self) -> dict[str, Any]:
        """Return the account as plain values.

        >>> account = SitesAccount()
        >>> said = {"site": "tokyo", "messages": {"rows": 2}, "bytes": {"paris": 70}}
        >>> account.see([{**said, "migrated": [{"number": 1, "position_us": 5, "node": "a", "operators": "NOS_a"}]}])
        >>> account.to_dict()["bytes"], account.to_dict()["modifications"]
        ({'tokyo -> paris': 70}, [{'number': 1, 'position': 5, 'affected': ['a'], 'to': {'a': 'NOS_a'}}])
        """
        messages = Counter[str]()
        for report in self.latest:
            messages.update(report["messages"])
        links = {f"{r['site']} -> {to}": size for r in self.latest for to, size in r["bytes"].items()}
        found = [self.modifications[number] for number in sorted(self.modifications)]
        return {"messages": dict(messages), "bytes": links, "modifications": found}
