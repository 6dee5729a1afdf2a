"""The log of Spark has an end, whatever is printed, and who prints never waits for room."""

import os
import time
from pathlib import Path
from unittest import mock

from midstream.spark import spark_log
from midstream.spark.spark_log import NOISE, SparkLog, without_noise


def written(log: SparkLog, lines: list[bytes]) -> None:
    with open(log.into, "wb", closefd=False) as pipe:
        pipe.writelines(lines)


def wait_for(file: Path, text: bytes) -> None:
    deadline = time.monotonic() + 20
    while not (file.exists() and text in file.read_bytes()):
        assert time.monotonic() < deadline, "it was never written"
        time.sleep(0.01)


def test_two_files_of_a_length_stay(tmp_path: Path) -> None:
    with mock.patch.object(spark_log, "MOST_BYTES", 1000):
        log = SparkLog(tmp_path / "spark.log")
        written(log, [b"line %04d\n" % k for k in range(1000)])
        wait_for(log.file, b"line 0999")
        log.close()
    assert sorted(f.name for f in tmp_path.iterdir()) == ["spark.log", "spark.old.log"]
    old, new = ((tmp_path / name).read_bytes() for name in ("spark.old.log", "spark.log"))
    kept = [int(line.split()[1]) for line in (old + new).splitlines()]
    assert kept == list(range(kept[0], 1000))
    assert 100 <= len(kept) <= 210
    assert {f.stat().st_mode & 0o777 for f in tmp_path.iterdir()} == {0o600}


def test_without_room_lines_are_left_out_and_nobody_waits(tmp_path: Path) -> None:
    log = SparkLog(tmp_path / "spark.log")
    (tmp_path / "spark.log").mkdir()  # it cannot be written to
    written(log, [b"x" * 100 + b"\n"] * 10_000)
    os.rmdir(tmp_path / "spark.log")
    written(log, [b"there is room\n"])
    wait_for(log.file, b"there is room")
    log.close()


def test_noise_is_left_out() -> None:
    lines = [b"a\n", b"INFO " + NOISE + b" 5\n", b"\n", b"b\n", b"\n", b"c\n"]
    assert list(without_noise(lines)) == [b"a\n", b"b\n", b"\n", b"c\n"]
