"""Mail between buckets: each message once, in the next micro-batch, in one order, whatever is run again."""

import copy
import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from engine.cluster import Cluster
from engine.live_host import HostedRun, two_streams
from engine.mail_toy import HOPS, TOY, heard, toy
from engine.test_broken_files import other_formats, said_of, spoilings

from midstream.engine.control.controls import MAIL
from midstream.engine.host import QueryHost
from midstream.engine.rows.mail import Message
from midstream.engine.rows.packed import Packed
from midstream.engine.rows.rows import Rows
from midstream.lang.sql import parse_query
from midstream.live.mailbox import KEPT, SAID, Mailbox, MailWriter
from midstream.local.replay import make_plan
from midstream.plan.plan import Plan
from seeds import few_quick

SQL = "SELECT a.v AS x, b.v AS y FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k"
SENT = [Message(1, "rows", bytes(range(256)) * 9000, 2), Message(0, "mark", b"", 2), Message(1, "mark", b"7", 0)]


def plan() -> Plan:
    return make_plan(parse_query(SQL, two_streams()))


def rows_of(rnd: random.Random, first: int, count: int) -> Rows:
    times = sorted(first + rnd.randrange(1_000_000) for _ in range(count))
    columns = {"k": pa.array([rnd.randrange(6) for _ in times], pa.int64()), "v": pa.array(times, pa.int64())}
    return Rows(np.array(times, np.int64), np.arange(first, first + count), columns)


def test_long_messages_come_as_they_were_sent(tmp_path: Path) -> None:
    writer = MailWriter(Mailbox(tmp_path))
    writer.write(6, SENT)
    assert Mailbox(tmp_path).read(7, 0) == [SENT[1]]
    assert Mailbox(tmp_path).read(7, 1) == [SENT[2], SENT[0]]
    assert Mailbox(tmp_path).read(7, 2) == []
    table = pa.ipc.open_stream(writer.box.file(6).read_bytes()).read_all()
    assert max(len(body) for body in table.column("body").to_pylist()) <= 1 << 20
    assert MailWriter(Mailbox(tmp_path)).waiting() == 6


def test_what_nobody_can_read_again_goes(tmp_path: Path) -> None:
    for run in range(2):  # a driver that begins finds what the one before has left
        writer = MailWriter(Mailbox(tmp_path))
        for number in range(10 * run, 10 * run + 10):
            writer.write(number, SENT[:1] if number % 2 else [])
            assert writer.waiting() == (number if number % 2 else None)
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"{n:08d}.arrow" for n in range(20 - KEPT, 20)]


def test_a_micro_batch_that_comes_again_replaces_its_mail(tmp_path: Path) -> None:
    MailWriter(Mailbox(tmp_path)).write(3, SENT)
    MailWriter(Mailbox(tmp_path)).write(3, SENT[1:2])
    assert Mailbox(tmp_path).read(4, 1) == []
    assert Mailbox(tmp_path).read(4, 0) == SENT[1:2]


def test_broken_mail_is_named(tmp_path: Path) -> None:
    """Never taken for no mail: nor is a file that is missing, or that of another micro-batch."""
    box = Mailbox(tmp_path)
    MailWriter(box).write(3, SENT)
    data = box.file(3).read_bytes()
    said = pa.ipc.open_stream(data).schema.metadata[SAID]
    ways = [*spoilings(data), *((how, data.replace(said, other)) for how, other in other_formats(said))]
    for how, spoiled in (("another batch", data.replace(b'"batch": 3', b'"batch": 4')), *ways):
        box.file(3).write_bytes(spoiled)
        named = said_of(lambda: box.read(4, 1))
        assert named is not None, how
        assert "00000003.arrow" in named
    box.file(3).unlink()
    assert "00000003.arrow is missing" in str(said_of(lambda: box.read(4, 1)))


@pytest.mark.parametrize("seed", few_quick(range(3)))
def test_attempts_crashes_and_lost_memory_change_no_mail(tmp_path: Path, seed: int) -> None:
    """The same rows through buckets whose attempts are repeated, and through others that nothing befalls."""
    with toy():
        told = []
        for crashes in (0.0, 0.5):
            rnd = random.Random(seed)
            cluster = Cluster(
                [plan()], tmp_path / str(crashes), (4, 7, 9), random.Random(seed), crashes, framework="toy"
            )
            for number in range(12):
                given = {rank: rows_of(rnd, number * 1_000_000, rnd.randint(0, 20)) for rank in range(2)}
                give(cluster, given if number < 7 else {}, (number + 1) * 1_000_000)
            told.append([heard(store.head or "") for store in cluster.stores.values()])
            assert not cluster.mail
            assert sum(reports[0]["mail_bytes"] for reports in cluster.reports) > 0
    assert told[0] == told[1]
    assert all(told[0])


def give(cluster: Cluster, given: dict[int, Rows], end_us: int) -> None:
    def packed_of(place: int) -> Packed:
        packed = Packed(high=dict.fromkeys((0, 1), end_us), clock_us=end_us)
        for rank, rows in given.items():
            cluster.place(packed, place, 1, rank, rows)
        return packed

    cluster.batch(packed_of)


def test_in_process_mail_is_read_before_the_next_rows() -> None:
    with toy():
        host = QueryHost([plan()], 3, TOY)
        host.open()
        rnd = random.Random(1)
        left = host.on_rows({"a": rows_of(rnd, 0, 9), "b": rows_of(rnd, 0, 9)}, 1_000_000)
        assert len(left.rounds) == HOPS + 2
        assert left.summary.messages > 0
        assert left.summary.mail_bytes > 0
        told = [bucket.newest.run.heard for bucket in host.buckets if bucket.newest is not None]  # type: ignore[attr-defined]
        assert all(told)


def test_a_live_run_goes_on_until_no_mail_waits(tmp_path: Path) -> None:
    """A nudge is sent once for a micro-batch; a drain ends it when nothing is on its way, a stop at once."""
    with toy():
        stores: dict[int, object] = {}

        def begin() -> HostedRun:
            return HostedRun(SQL, two_streams(), tmp_path, stores, 2, framework=TOY)  # type: ignore[arg-type]

        run = begin()
        assert run.live.nudge() is None
        run.tick({"a": table(1), "b": table(2)})
        run.tick({"a": table(3_000_000), "b": table(3_000_000)})
        nudge = run.live.nudge()
        assert nudge == run.live.nudge() == "00000001-mail"
        assert run._checkpoint.controls.rows()[-1]["do"] == MAIL
        run.ask_to_end()
        assert run.tick({})
        assert run._end_after == 2
        run.end()
        before = copy.deepcopy(stores)
        run = begin()
        assert run.live.nudge() == "00000002-mail"
        run.ask_to_end(drain=True)
        ticks = 0
        while run.tick({}):
            ticks += 1
        assert ticks > HOPS
        assert not run.live.mail_waits()
        run.end()
        assert all(event["event"] != MAIL for event in run.events())
        assert json.dumps(before[0].head) != json.dumps(stores[0].head)  # type: ignore[attr-defined]


def table(us: int) -> pa.Table:
    return pa.table({"ts": [us], "k": [1], "v": [us], "s": ["x"]}, schema=two_streams()[0].columns)
