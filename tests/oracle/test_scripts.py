"""Drawn scripts of every kind equal recomputing, as they are cut and however else they could be."""

from dataclasses import replace

import pytest

from midstream.local import width
from midstream.local.replay import in_process
from oracle.scripts import KINDS, draw_script
from seeds import seeds


@pytest.mark.parametrize("seed", seeds(0, 24, quick=1))
@pytest.mark.parametrize("kind", KINDS)
def test_a_drawn_script_equals_recomputing_however_it_is_cut(
    kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = draw_script(kind, seed)
    table, report = script.run(in_process)
    script.check(table, report)
    monkeypatch.setattr(width, "BATCH_ROWS", 1 + seed % 9)
    assert script.loop.batch_us is not None
    for batch_us, buckets in ((script.loop.batch_us // 3 + 1, 1), (2**60, 2), (None, 1 + seed % 3)):
        other = replace(script, loop=replace(script.loop, batch_us=batch_us, buckets=buckets))
        again, report = other.run(in_process)
        script.check(again, report)
        assert again.num_rows == table.num_rows, script.told
