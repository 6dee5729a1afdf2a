"""Output watch: how long nothing came out, and how long results were held back, in event time."""

import numpy as np
import pyarrow as pa


class OutputWatch:
    """Follows the output of a run.

    Invariant: `last_us` is the event time at which something last came out, or the watch began.
    """

    def __init__(self) -> None:
        self.last_us: int | None = None
        self.gap_us = 0
        """The longest time without output since `begin`."""
        self.delay_us = 0
        """The most a result was held back since `begin`."""

    def begin(self, now_us: int) -> None:
        """Start anew at a position."""
        self.last_us, self.gap_us, self.delay_us = now_us, 0, 0

    def see(self, rows: pa.RecordBatch) -> None:
        """Note results that left when their latest row came."""
        if rows.num_rows and self.last_us is not None:
            times = np.concatenate([[self.last_us], rows.column("_time").to_numpy()])
            self.gap_us = max(self.gap_us, int(np.diff(times).max()))
            self.last_us = int(times[-1])

    def see_released(self, rows: pa.RecordBatch, now_us: int) -> None:
        """Note results that were held back until now."""
        if rows.num_rows and self.last_us is not None:
            self.delay_us = max(self.delay_us, now_us - int(rows.column("_time").to_numpy().min()))
            self.gap_us = max(self.gap_us, now_us - self.last_us)
            self.last_us = max(self.last_us, now_us)

    def see_left(self, rows: pa.Table) -> None:
        """Note results that say when they left, in the order they did."""
        if rows.num_rows:
            times = rows.column("_time").to_numpy()
            left = np.minimum(rows.column("_order0").to_numpy(), times.max())
            self.delay_us = max(self.delay_us, int((left - times).max()))

    def end(self, now_us: int) -> None:
        """Note that nothing came out since the last result until now."""
        if self.last_us is not None:
            self.gap_us = max(self.gap_us, now_us - self.last_us)
