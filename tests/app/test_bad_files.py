"""Files that are no streams, and values that are no times: each is one sentence that names the stream and the file."""

import datetime as dt
import gzip
import os
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from app.spoiled_folder import JOIN, Folder, table

LAST, FIRST = 2**63 - 1, -(2**63)
Content = str | bytes | pa.Table


def times(values: list[Any], kind: pa.DataType, k: Any = None) -> pa.Table:
    return pa.table(
        {"ts": pa.array(values, kind), "k": [1] * len(values) if k is None else k, "v": [1.0] * len(values)}
    )


def rows(head: str, *lines: str) -> str:
    return "\n".join([head, *lines]) + "\n"


BAD_FILES: dict[str, tuple[str, Content, list[str]]] = {
    # name: (file, its content, what the sentence must hold)
    # -- CSV
    "csv: no line": ("a.csv", "", ["a.csv"]),
    "csv: only a line break": ("a.csv", "\n", ["a.csv"]),
    "csv: only a byte order mark": ("a.csv", b"\xef\xbb\xbf", ["a.csv"]),
    "csv: UTF-16": ("a.csv", "ts,k,v\n1,1,1\n".encode("utf-16"), ["'a'"]),
    "csv: UTF-32": ("a.csv", "ts,k,v\n1,1,1\n".encode("utf-32"), ["'a'"]),
    "csv: UTF-16 without a mark": ("a.csv", "ts,k,v\n1,1,1\n".encode("utf-16-le"), ["'a'"]),
    "csv: EBCDIC": ("a.csv", "ts,k,v\n1,1,1\n".encode("cp500"), ["'a'"]),
    "csv: Latin-1 in a name": ("a.csv", b"ts,k,v,n\xe4me\n1,1,1,x\n", ["'a'"]),
    "csv: gzip": ("a.csv", gzip.compress(b"ts,k,v\n1,1,1\n"), ["'a'"]),
    "csv: it is Parquet": ("a.csv", b"PAR1" + bytes(range(256)) * 4 + b"PAR1", ["'a'"]),
    "csv: a NUL in a time": ("a.csv", b"ts,k,v\n1\x00,1,1\n", ["'a'", "'ts'"]),
    "csv: NULs only": ("a.csv", bytes(1000), ["'a'"]),
    "csv: an open quote": ("a.csv", 'ts,k,v\n1,"1,1\n2,2,2\n', ["'a'"]),
    "csv: an open quote in the head": ("a.csv", 'ts,"k,v\n1,1,1\n', ["'a'"]),
    "csv: text after a quote": ("a.csv", 'ts,k,v\n"1"x,1,1\n', ["'a'"]),
    "csv: semicolons": ("a.csv", rows("ts;k;v", "1;1;1"), ["'ts'", "ts;k;v"]),
    "csv: tabs": ("a.csv", rows("ts\tk\tv", "1\t1\t1"), ["'ts'"]),
    "csv: no head": ("a.csv", rows("1,1,1", "2,2,2"), ["'ts'"]),
    "csv: a blank in the head": ("a.csv", rows(" ts,k,v", "1,1,1"), ["'ts'"]),
    "csv: TS in capitals": ("a.csv", rows("TS,k,v", "1,1,1"), ["'ts'"]),
    "csv: JSON lines": ("a.csv", '{"ts": 1, "k": 1}\n{"ts": 2, "k": 2}\n', ["'ts'"]),
    "csv: time with a thousands sign": ("a.csv", rows("ts,k,v", '"1,000",1,1'), ["'ts'", "string"]),
    "csv: time with a unit": ("a.csv", rows("ts,k,v", "1us,1,1"), ["'ts'"]),
    "csv: hexadecimal time": ("a.csv", rows("ts,k,v", "0xzz,1,1"), ["'ts'"]),
    "csv: a time of 20 digits": ("a.csv", rows("ts,k,v", "99999999999999999999,1,1"), ["'ts'"]),
    "csv: NaN as time": ("a.csv", rows("ts,k,v", "nan,1,1"), ["'ts'"]),
    "csv: inf as time": ("a.csv", rows("ts,k,v", "inf,1,1", "1,1,1"), ["'ts'"]),
    "csv: true as time": ("a.csv", rows("ts,k,v", "true,1,1"), ["'ts'"]),
    "csv: NULL as time": ("a.csv", rows("ts,k,v", "NULL,1,1", "1,1,1"), ["'ts'", "row 1"]),
    "csv: hours as time": ("a.csv", rows("ts,k,v", "12:00:00,1,1"), ["'ts'"]),
    "csv: dates as time": ("a.csv", rows("ts,k,v", "2024-01-01,1,1"), ["'ts'", "date32"]),
    "csv: the 30th of February": ("a.csv", rows("ts,k,v", "2024-02-30 00:00:00,1,1"), ["'ts'"]),
    "csv: year 10000": ("a.csv", rows("ts,k,v", "10000-01-01 00:00:00,1,1"), ["'ts'"]),
    "csv: hour 25": ("a.csv", rows("ts,k,v", "2024-01-01 25:00:00,1,1"), ["'ts'"]),
    "csv: times of two kinds": ("a.csv", rows("ts,k,v", "1,1,1", "2024-01-01 00:00:00,1,1"), ["'ts'"]),
    "csv: the time column twice": ("a.csv", rows("ts,k,v,ts", "1,1,1,1"), ["'ts'"]),
    "csv: a row of one field": ("a.csv", rows("ts,k,v", "1,1,1", "x"), ["3 columns", "row 3"]),
    "csv: a row of a thousand": ("a.csv", rows("ts,k,v", "1,1,1", ",".join("1" * 1000)), ["3 columns", "1000"]),
    "csv: text as key": ("a.csv", rows("ts,k,v", "1,x,1"), ["VARCHAR", "BIGINT"]),
    "csv: an object after the rows": ("a.csv", rows("ts,k,v", "1,1,1") + "\x00\x01\x02", ["'a'"]),
    # -- Parquet
    "parquet: one byte": ("a.parquet", b"P", ["a.parquet"]),
    "parquet: the magic only": ("a.parquet", b"PAR1", ["a.parquet"]),
    "parquet: the magic twice": ("a.parquet", b"PAR1PAR1", ["a.parquet"]),
    "parquet: a footer of 2 GB": ("a.parquet", b"PAR1" + struct.pack("<I", 2**31) + b"PAR1", ["a.parquet"]),
    "parquet: encrypted": ("a.parquet", b"PAR1" + b"x" * 100 + struct.pack("<I", 50) + b"PARE", ["a.parquet"]),
    "parquet: CSV": ("a.parquet", "ts,k,v\n1,1,1\n", ["a.parquet"]),
    "parquet: gzip": ("a.parquet", gzip.compress(b"PAR1"), ["a.parquet"]),
    "parquet: NULs": ("a.parquet", bytes(4096), ["a.parquet"]),
    "parquet: an Arrow file": ("a.parquet", b"ARROW1\0\0" + bytes(100) + b"ARROW1", ["a.parquet"]),
    "parquet: no column": ("a.parquet", pa.table({}), ["'a'"]),
    "parquet: another time column": ("a.parquet", pa.table({"time": [1], "k": [1]}), ["'ts'", "time, k"]),
    "parquet: ts inside a struct": ("a.parquet", pa.table({"row": [{"ts": 1}], "k": [1]}), ["'ts'"]),
    "parquet: column twice": (
        "a.parquet", pa.Table.from_arrays([pa.array([1])] * 4, names=["ts", "k", "k", "v"]), ["'k'"]),
    "parquet: time twice": (
        "a.parquet", pa.Table.from_arrays([pa.array([1])] * 4, names=["ts", "k", "v", "ts"]), ["'ts'"]),
    "parquet: empty column name": (
        "a.parquet", pa.table({"ts": [1], "k": ["x"], "": [1], "v": [1]}), ["VARCHAR", "BIGINT"]),
    # -- times
    "time: text": ("a.parquet", times(["1"], pa.string()), ["'ts'", "string"]),
    "time: bytes": ("a.parquet", times([b"1"], pa.binary()), ["'ts'", "binary"]),
    "time: a boolean": ("a.parquet", times([True], pa.bool_()), ["'ts'", "bool"]),
    "time: NaN": ("a.parquet", times([float("nan")], pa.float64()), ["'ts'", "double"]),
    "time: inf": ("a.parquet", times([float("inf")], pa.float32()), ["'ts'", "float"]),
    "time: a decimal": ("a.parquet", times([Decimal(1)], pa.decimal128(10, 0)), ["'ts'", "decimal"]),
    "time: a list": ("a.parquet", times([[1]], pa.list_(pa.int64())), ["'ts'", "list"]),
    "time: a struct": ("a.parquet", times([{"x": 1}], pa.struct([("x", pa.int64())])), ["'ts'", "struct"]),
    "time: a duration": ("a.parquet", times([1], pa.duration("us")), ["'ts'"]),
    "time: a time of day": ("a.parquet", times([dt.time(1)], pa.time64("us")), ["'ts'", "time64"]),
    "time: dates of 64 bits": ("a.parquet", times([dt.date(2024, 1, 1)], pa.date32()), ["'ts'", "date32"]),
    "time: nothing but NULL": ("a.parquet", times([None, None], pa.int64()), ["'ts'", "row 1"]),
    "time: NULL without a type": ("a.parquet", times([None], pa.null()), ["'ts'", "null"]),
    "time: NaT": ("a.parquet", times([0, None], pa.timestamp("us")), ["'ts'", "row 2"]),
    "time: the NaT of pandas": ("a.parquet", times([0, FIRST], pa.int64()), ["'ts'", "row 2"]),
    "time: last of 64 bits": ("a.parquet", times([0, LAST], pa.int64()), ["'ts'", "row 2", str(LAST)]),
    "time: 2 to the 62nd": ("a.parquet", times([2**62], pa.int64()), ["'ts'", "row 1"]),
    "time: minus 2 to the 62nd": ("a.parquet", times([-(2**62)], pa.int64()), ["'ts'", "row 1"]),
    "time: unsigned": ("a.parquet", times([2**63], pa.uint64()), ["'ts'"]),
    "time: too far in seconds": ("a.parquet", times([2**53], pa.timestamp("s")), ["'ts'"]),
    "time: too early in seconds": ("a.parquet", times([-(2**53)], pa.timestamp("s")), ["'ts'"]),
    "time: too far in milliseconds": ("a.parquet", times([2**60], pa.timestamp("ms")), ["'ts'"]),
    "time: last microsecond": ("a.parquet", times([LAST], pa.timestamp("us")), ["'ts'", "row 1"]),
    "time: too far with a zone": ("a.parquet", times([LAST], pa.timestamp("us", "Europe/Berlin")), ["'ts'"]),
    "time: far down": (
        "a.parquet", times([*range(200_000), LAST], pa.int64(), [1] * 200_001), ["'ts'", "row 200001"]),
    # -- values
    "value: unsigned of 64 bits": (
        "a.parquet", pa.table({"ts": [1], "k": pa.array([2**64 - 1], pa.uint64()), "v": [1.0]}), ["'k'", "int64"]),
    "value: a decimal of 256 bits": (
        "a.parquet", pa.table({"ts": [1], "k": pa.array([Decimal("1" * 70)], pa.decimal256(76, 0)), "v": [1.0]}),
        ["k"]),
    "value: a list as key": ("a.parquet", pa.table({"ts": [1], "k": [[1]], "v": [1.0]}), ["a.k", "list"]),
    "value: a map as key": (
        "a.parquet", pa.table({"ts": [1], "k": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "v": [1.0]}),
        ["a.k", "map"]),
    "value: text as key": ("a.parquet", pa.table({"ts": [1], "k": ["x"], "v": [1.0]}), ["VARCHAR", "BIGINT"]),
    "value: a date as key": ("a.parquet", pa.table({"ts": [1], "k": [dt.date(2024, 1, 1)], "v": [1.0]}), ["DATE"]),
    "value: a timestamp as key": (
        "a.parquet", pa.table({"ts": [1], "k": pa.array([2**53], pa.timestamp("ms")), "v": [1.0]}), ["TIMESTAMP"]),
    "value: an interval": (
        "a.parquet", pa.table({"ts": [1], "k": pa.array([5], pa.duration("us")), "v": [1.0]}), ["a.k"]),
    # -- names
    "name: no suffix": ("a", b"ts,k,v\n1,1,1\n", ["'a'", ".parquet"]),
    "name: another suffix": ("a.json", b"{}", ["'a'", "a.json"]),
    "name: a gzip of CSV": ("a.csv.gz", gzip.compress(b"ts,k\n1,1\n"), ["a.csv.gz"]),
    "name: with a line break": ("a\nb.csv", "ts,x,v\n", ["'k'"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file(folder: Folder, name: str) -> None:
    file, content, holds = BAD_FILES[name]
    folder.write(file, content)
    folder.streams["a"] = file
    folder.scenario()
    said = folder.replay_fails()
    for part in holds:
        assert part in said


def test_a_parquet_file_cut_anywhere(folder: Folder, recorded: dict[str, bytes]) -> None:
    whole = recorded["a.parquet"]
    for cut in (0, 1, 3, 4, 5, 11, 12, len(whole) // 2, len(whole) - 9, len(whole) - 8, len(whole) - 4, len(whole) - 1):
        folder.write("a.parquet", whole[:cut])
        said = folder.replay_fails()
        assert "'a'" in said
        assert "a.parquet" in said


@pytest.mark.slow
def test_a_parquet_file_with_a_flipped_byte_is_read_or_named(folder: Folder, recorded: dict[str, bytes]) -> None:
    whole = recorded["a.parquet"]
    for place in range(7, len(whole), len(whole) // 60):
        folder.write("a.parquet", whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        code, out, err = folder.run("replay", "scenario.toml", "--quiet")
        assert code in (0, 2), (place, err)
        assert out == ""
        assert err.count("\n") == (code == 2), (place, err)
        assert "Traceback" not in err


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_what_is_no_file(folder: Folder, suffix: str) -> None:
    (folder.path / f"folder.{suffix}").mkdir()
    (folder.path / f"loop.{suffix}").symlink_to(folder.path / f"loop.{suffix}")
    (folder.path / f"gone.{suffix}").symlink_to(folder.path / "nowhere")
    (folder.path / "a.txt").write_text("x")
    long = "x" * 300
    for name in (f"folder.{suffix}", f"loop.{suffix}", f"gone.{suffix}", f"a.txt/in.{suffix}", f"{long}.{suffix}"):
        folder.streams["a"] = name
        folder.scenario()
        assert "'a'" in folder.replay_fails()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_file_that_may_not_be_read(folder: Folder) -> None:
    for name in ("a.parquet", "a.csv"):
        folder.write(name, "ts,k,v\n")
        (folder.path / name).chmod(0)
        folder.streams["a"] = name
        folder.scenario()
        assert name in folder.replay_fails()


def test_files_that_may_not_be_read_are_named(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for root, to whom nothing is forbidden."""

    def refuse(*args: object, **named: object) -> None:
        raise PermissionError(13, "Permission denied")

    folder.write("a.csv", "ts,k,v\n1,1,1\n")
    monkeypatch.setattr(pyarrow.csv, "read_csv", refuse)
    monkeypatch.setattr(pq, "ParquetFile", refuse)
    for name in ("a.csv", "a.parquet"):
        folder.streams["a"] = name
        folder.scenario()
        said = folder.replay_fails()
        assert name in said
        assert "Permission denied" in said


@pytest.mark.slow
def test_odd_values_that_are_fine(folder: Folder) -> None:
    """NaN, infinities, extreme integers and dates are values like others; so is a file with a byte order mark."""
    odd = {
        "v": pa.array([float("nan"), float("inf"), -0.0], pa.float64()),
        "k": pa.array([LAST, FIRST + 1, None], pa.int64()),
        "day": pa.array([-719162, 2932896, 0], pa.date32()),
        "name": ["", "\0", "\U0001f600"],
    }
    spans = {"ts": pa.array([-(2**62) + 1, 0, 2**62 - 1], pa.int64())}
    folder.write("a.parquet", pa.table(spans | odd))
    folder.write("b.csv", b"\xef\xbb\xbfts,k,v\n1,1,1\n")
    folder.streams["b"] = "b.csv"
    for sql in (JOIN, "SELECT * FROM a", "SELECT k, day, name FROM a [ROWS 2] HOP BY 100000 DAYS"):
        folder.scenario(sql)
        assert folder.run("replay", "scenario.toml", "--quiet") == (0, "", "")


def test_dates_beyond_those_of_python_can_be_asked_for(folder: Folder) -> None:
    far = pa.array([2**31 - 1, -(2**31)], pa.date32())
    folder.write("a.parquet", pa.table({"ts": [1, 2], "k": [1, 2], "v": [1.0, 2.0], "day": far, "name": ["a", "b"]}))
    for sql in (
        "SELECT day FROM a",
        "SELECT CAST(day AS VARCHAR) AS d FROM a",
        "SELECT k FROM a WHERE day > '2020-01-01'",
    ):
        folder.scenario(sql)
        code, out, err = folder.run("replay", "scenario.toml", "--out", "o.parquet")
        assert code in (0, 2), (sql, err)
        assert "Traceback" not in out + err


def test_the_table_of_every_case_is_good(folder: Folder) -> None:
    assert folder.run("replay", "scenario.toml", "--quiet") == (0, "", "")
    assert table().num_rows
    assert Path(folder.path).exists()
