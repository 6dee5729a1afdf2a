"""Runs of the set-up of Fig. 4: the case that all studies of joins over sites share, and its words."""

from midstream.sites.declaration import Update
from midstream.sites.packet import GLOBAL_READY, LOCAL_READY, MODIFICATION, WINDOW_REQUEST
from midstream.studies.distributed.followed import MIGRATION, run_streams
from midstream.studies.distributed.streams import BIN_US, SiteStreams, one_stream_changes, phase_of
from midstream.studies.frame.data import Columns, Data
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case

COUNTS = (4, 8)
STAYS, CENTRAL, SPREAD = "off", "centralized", "distributed"
LABELS: dict[Update, str] = {
    "off": "plan stays", "centralized": "centralized update (CNU)", "distributed": "distributed update (DNU)",
}  # fmt: skip
FACTOR, SEED = 0.01, 1
PAPER_S = 9.6
"""The rate changes at 1.6 s and every two seconds from then on: it rises twice and falls twice."""
RISES, FALLS = (1, 3), (2, 4)
"""Phases that begin with a rate that rises, and with one that falls."""
SETTLED_BINS = 5
"""The last second of a phase: windows have moved and are full of rows of the new rate."""


def follow_rates(count: int, update: Update, end_s: float) -> Columns:
    """Run streams at so many sites; return the cost of each interval, and messages and overhead of its phase."""
    streams = SiteStreams(count, FACTOR, one_stream_changes, round(end_s * 1e6), SEED)
    found = run_streams(streams, update)
    bins = range(streams.end_us // BIN_US)
    phases = [phase_of(b * BIN_US) for b in bins]

    def sent(*kinds: str) -> list[int]:
        return [sum(found.messages[p][kind] for kind in kinds) for p in phases]

    def spent(*kinds: str) -> list[float]:
        return [round(sum(found.overhead_s[p][kind] for kind in kinds), 9) for p in phases]

    return {
        "time_s": [round(b * BIN_US / 1e6, 6) for b in bins], "cost": found.cost, "phase": phases,
        "modifications": [found.modifications[p] for p in phases], "rows_out": [found.rows_out for _ in bins],
        "modification": sent(MODIFICATION), "requests": sent(WINDOW_REQUEST),
        "synchronization": sent(LOCAL_READY, GLOBAL_READY),
        "modification_s": spent(MODIFICATION), "migration_s": spent(*MIGRATION),
    }  # fmt: skip


def cases(scale: Scale) -> list[Case]:
    """Return the runs: both sizes, by each update."""
    # Shorter ones would not see the changes again; beyond the paper's size there are more of them.
    end_s = round(PAPER_S * max(1.0, scale.factor), 1)
    return [Case(follow_rates, {"count": n, "update": u, "end_s": end_s}) for n in COUNTS for u in LABELS]


def mean_cost(data: Data, count: int, update: str, phase: int, last: int | None = None) -> float:
    """Return the mean cost of a phase, or of its last intervals."""
    costs = data.where(count=count, update=update, phase=phase)["cost"]
    return round(float(costs[-last:].mean() if last else costs.mean()), 4)


def of_phase(data: Data, what: str, count: int, update: str, phases: tuple[int, ...]) -> list[float]:
    """Return what a run has counted in each of some phases, those that it had."""
    mine = data.where(count=count, update=update)
    there = mine.each("phase")
    return [mine.value(what, phase=p) for p in phases if p in there]
