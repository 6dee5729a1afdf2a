"""Messages in the set-up of the paper: one of n streams goes from 50 to 200 rows a second, and back."""

import random
from collections.abc import Callable, Mapping

import pytest
from sites.exchange import Network, Node
from sites.setups import names, paper_model, paper_stream

from midstream.sites.centralized import centralized_nodes
from midstream.sites.distributed import distributed_nodes

DISTRIBUTED = {
    3: (18, 20), 4: (56, 53), 5: (117, 101), 6: (199, 169), 7: (307, 259), 8: (445, 375), 9: (616, 520), 10: (823, 697)
}  # fmt: skip
"""The table of docs/sites.md: modification messages when the rate rises, and when it falls."""


def counted(count: int, make: Callable[..., Mapping[str, Node]]) -> list[tuple[int, int, int]]:
    """Return, of both changes, modification messages, affected nodes and windows that move."""
    aliases, model = names(count), paper_model(count)
    streams = {a: paper_stream(100.0) for a in aliases} | {aliases[-1]: paper_stream(50.0)}
    network = Network(make(model, streams, 0.1), random.Random(1))
    found = []
    for rate in (200.0, 50.0):
        network.counts.clear()
        network.migrations.clear()
        network.send(network.nodes[aliases[-1]].observe(paper_stream(rate)))
        network.run()
        moves = sum(len(m.moves) for m in network.migrations)
        found.append((network.of_kind("modification"), len(network.migrations), moves))
    return found


@pytest.mark.parametrize("count", range(3, 11))
def test_messages_of_both_updates(count: int) -> None:
    central, distributed = counted(count, centralized_nodes), counted(count, distributed_nodes)
    assert [messages for messages, _, _ in central] == [count, count]
    assert tuple(messages for messages, _, _ in distributed) == DISTRIBUTED[count]
    # Every node is affected, as the paper has it, and both move the same windows.
    assert [affected for _, affected, _ in central] == [count, count]
    assert [found[1:] for found in central] == [found[1:] for found in distributed]


@pytest.mark.parametrize(("count", "moved"), [(4, 34 - 24), (8, 131 - 112)])
def test_as_many_windows_move_as_in_table_3_when_the_rate_rises(count: int, moved: int) -> None:
    assert counted(count, centralized_nodes)[0][2] == moved


def test_a_change_below_the_threshold_is_not_reported() -> None:
    aliases, model = names(3), paper_model(3)
    for make in (centralized_nodes, distributed_nodes):
        nodes: Mapping[str, Node] = make(model, {a: paper_stream(100.0) for a in aliases}, 0.1)
        assert nodes["s2"].observe(paper_stream(109.0)) == []
        assert nodes["s2"].observe(paper_stream(111.0))
