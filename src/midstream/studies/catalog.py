"""All studies, in the order of the report."""

from collections.abc import Sequence

from midstream.model.errors import MidstreamError
from midstream.studies.frame.study import Study
from midstream.studies.jisc import complete_states

STUDIES: tuple[Study, ...] = (
    complete_states.STUDY,
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
