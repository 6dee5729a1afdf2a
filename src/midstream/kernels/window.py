"""Counted windows: who is pushed out by whom."""

import numpy as np

from midstream.kernels.arrays import Matrix, Vector
from midstream.kernels.compile import kernel


@kernel
def push_partitioned(
    queue_of: Vector, queues: Matrix, nodes: Matrix, node_count: int, rows: Vector, size: int
) -> tuple[Vector, int]:
    """Append each row to its key's queue of at most `size`; return the row each one pushes out, or -1.

    `queue_of[i]` is the queue of row i; a queue is (first node, last node, length); a node is (row, next node). A row
    number of -1 is a row the query's filters have dropped: it takes a place in the window and is never reported.
    """
    pushed = np.full(rows.size, -1, np.int64)
    for i in range(rows.size):
        q = queue_of[i]
        nodes[node_count, 0] = rows[i]
        nodes[node_count, 1] = -1
        if queues[q, 2] == 0:
            queues[q, 0] = node_count
        else:
            nodes[queues[q, 1], 1] = node_count
        queues[q, 1] = node_count
        queues[q, 2] += 1
        node_count += 1
        if queues[q, 2] > size:
            first = queues[q, 0]
            pushed[i] = nodes[first, 0]
            queues[q, 0] = nodes[first, 1]
            queues[q, 2] -= 1
    return pushed, node_count


@kernel
def pack_queues(queues: Matrix, queue_count: int, nodes: Matrix, packed: Matrix) -> int:
    """Copy the live nodes of all queues into `packed`, queue by queue; return how many there are."""
    count = 0
    for q in range(queue_count):
        node = queues[q, 0]
        for k in range(queues[q, 2]):
            packed[count, 0] = nodes[node, 0]
            packed[count, 1] = count + 1 if k + 1 < queues[q, 2] else -1
            if k == 0:
                queues[q, 0] = count
            if k + 1 == queues[q, 2]:
                queues[q, 1] = count
            count += 1
            node = nodes[node, 1]
    return count
