"""A change of the query, counted: the set-up of section 6.1, and the words that studies of changes share.

2,000 rows, one a millisecond ──▶ sum over [ROWS old] ──▶ after 1,000 rows: sum over [ROWS new] ──▶ the record's counts
"""

from typing import Any

import numpy as np
import pyarrow as pa

from midstream.studies.frame.data import Columns
from midstream.studies.frame.follow import Followed
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case

IM, DD, QD, SD, GI, GD = "IChange", "DDChange", "QDChange", "SDChange", "GIChange", "GDChange"
METHODS: dict[str, dict[str, Any]] = {
    IM: {"method": "immediate"},
    DD: {"method": "delayed-drain"},
    QD: {"method": "drain", "order": "query"},
    SD: {"method": "drain", "order": "stream"},
    GI: {"method": "graceful-immediate"},
    GD: {"method": "graceful-drain"},
}
SIZES = tuple(range(10, 101, 10))
OLD, ROWS, AFTER, ROW_US = 50, 2_000, 1_000, 1_000
BATCH_ROWS = 100
COUNTED = ("loss", "extra", "query_disorder", "stream_disorder", "duplicates", "old_results", "new_results")
SUM = "SELECT SUM(v) AS total FROM s [ROWS {} SLIDE {}]"


def rows(count: int) -> pa.Table:
    """Return rows, one a millisecond."""
    values = np.arange(count)
    return pa.table({"ts": values * ROW_US, "v": values % 7})


def changed(first: str, then: str, method: str, count: int = ROWS, after: int = AFTER) -> dict[str, Any]:
    """Change a query after so many rows; return the record."""
    run = Followed(first, {"s": rows(count)}, None, "auto", BATCH_ROWS * ROW_US)
    run.advance(after * ROW_US)
    run.change(then, **METHODS[method], audit=True, allow_schema_change=True)
    run.finish()
    return dict(run.running.changes()[0])


def in_rows(time_us: int | None) -> int | None:
    """Return a stretch of time in rows."""
    return None if time_us is None else round(time_us / ROW_US)


def change_sizes(method: str, old: int, slide: int, sizes: list[int], after: int = AFTER) -> Columns:
    """Change from windows of `old` rows to each of some sizes; return what was counted, and times in rows."""
    found: dict[str, list[Any]] = {"new": list(sizes)}
    for new in sizes:
        record = changed(SUM.format(old, min(slide, old)), SUM.format(new, min(slide, new)), method, after=after)
        for name in COUNTED:
            found.setdefault(name, []).append(record[name])
        found.setdefault("response", []).append(in_rows(record["response_us"]))
        found.setdefault("parallel", []).append(in_rows(record["two_versions_us"]))
    return found


def cases(scale: Scale) -> list[Case]:
    """Return the runs of Figs. 14 to 16: they are as large as in the paper at any scale, and take a second each."""
    return [Case(change_sizes, {"method": m, "old": OLD, "slide": 1, "sizes": list(SIZES)}) for m in METHODS]
