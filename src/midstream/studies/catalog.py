"""All studies, in the order of the report."""

from collections.abc import Sequence

from midstream.model.errors import MidstreamError
from midstream.studies.changing import distances, guarantees, linear_road, sensitivity, slides
from midstream.studies.distributed import costs as site_costs
from midstream.studies.distributed import messages as site_messages
from midstream.studies.distributed import overhead as site_overhead
from midstream.studies.frame.study import Study
from midstream.studies.hybmig import background, general, overhead, rate, sharing, sweeps, table1
from midstream.studies.jisc import complete_states, frequency, latency, normal, stage
from midstream.studies.multimode import flips, heuristic, modes, plans, stores, switch

STUDIES: tuple[Study, ...] = (
    table1.STUDY, rate.STUDY, overhead.STUDY, sweeps.WINDOW, sweeps.RATE, sweeps.STREAMS, sharing.STUDY,
    background.STUDY, general.STUDY,
    stage.BEST_CASE, stage.WORST_CASE, normal.STUDY, latency.STUDY, frequency.WORST_CASE, frequency.BEST_CASE,
    complete_states.STUDY,
    guarantees.STUDY, sensitivity.RESPONSE, sensitivity.CORRECTNESS, sensitivity.COST,
    slides.STUDY, distances.STUDY, linear_road.STUDY,
    modes.JOINS, modes.DIFFERENCES, switch.STUDY, heuristic.STUDY, plans.PUSH, plans.TOGETHER,
    flips.STUDY, stores.STUDY,
    site_costs.STUDY, site_overhead.STUDY, site_messages.STUDY,
)  # fmt: skip


def chosen(names: Sequence[str]) -> list[Study]:
    """Return studies by their names, or by the beginning of several; all when none is named.

    >>> [study.name for study in chosen(["jisc-complete"])]
    ['jisc-complete-states']
    """
    for name in names:
        if not any(study.name.startswith(name) for study in STUDIES):
            raise MidstreamError(f"there is no study '{name}'; there are {', '.join(s.name for s in STUDIES)}")
    return [s for s in STUDIES if not names or any(s.name.startswith(name) for name in names)]
