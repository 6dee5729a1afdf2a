"""Bad input gets one sentence that names the thing, exit code 2, and nothing is written or lost.

Every case runs the real command line in a folder of its own (`spoiled_folder.py`). A few run in a process of their own,
since only that shows what a shell sees. More cases: `test_bad_files.py`, `test_bad_settings.py`, `test_bad_control.py`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from app.spoiled_folder import JOIN, ROWS, Folder, table

import midstream as ms
from midstream.app.replay import replay
from midstream.local.replay import prepare
from midstream.local.scenario import read_scenario
from seeds import few_quick


def test_the_scenario_every_case_spoils_is_good(folder: Folder) -> None:
    code, _, err = folder.run(
        "replay", "scenario.toml", "--out", "o.parquet", "--report", "r.json", "--late", "l.parquet"
    )
    assert (code, err) == (0, "")
    assert pq.read_table(folder.path / "o.parquet").num_rows > ROWS
    assert {"o.parquet", "r.json", "l.parquet"} <= set(folder.snapshot())


BAD_SQL = {
    # name: (query, what the sentence must hold)
    "syntax": ("SELECT k FROM a WHERE\n  k = = 1", ["syntax error", "(line 2, column 7)"]),
    "syntax at the end": ("SELECT k FROM a WHERE k =", ["syntax error", "line 1"]),
    "unclosed string": ("SELECT k FROM a\nWHERE name = 'x", ["syntax error", "(line 2, column 14)"]),
    "empty": ("  ", ["the query is empty"]),
    "two statements": ("SELECT k FROM a; SELECT k FROM b", ["2 statements"]),
    "not a select": ("DELETE FROM a", ["DELETE"]),
    "no from": ("SELECT 1", ["FROM"]),
    "unknown stream": ("SELECT k\nFROM orders", ["'orders'", "a, b", "(line 2, column 6)"]),
    "unknown column": ("SELECT nme FROM a", ["'nme'", "did you mean 'name'?", "(line 1, column 8)"]),
    "unknown column of an alias": ("SELECT x.pryce FROM a x", ["'pryce'", "did you mean 'price'?", "'a'"]),
    "unknown alias": ("SELECT k FROM a WHERE z.k = 1", ["'z'", "(line 1, column 23)"]),
    "unknown column in where": ("SELECT k FROM a\nWHERE zzz > 1", ["'zzz'", "(line 2, column 7)"]),
    "unknown partition column": ("SELECT k FROM a [ROWS 5 PARTITION BY zzz]", ["'zzz'"]),
    "unknown function": ("SELECT lenght(name) FROM a", ["'lenght'", "did you mean 'length'?", "(line 1, column 8)"]),
    "wrong number of arguments": ("SELECT abs(k, 1) FROM a", ["ABS takes 1 argument, not 2"]),
    "type mismatch": ("SELECT k FROM a WHERE name > 5", ["VARCHAR", "BIGINT", "a.name", "(line 1, column 23)"]),
    "type mismatch of a join": (
        "SELECT a.k FROM a [ROWS 1], b [ROWS 1] WHERE a.day = b.k",
        ["DATE", "BIGINT", "a.day", "(line 1, column 46)"],
    ),
    "type mismatch of arithmetic": ("SELECT name + 1 FROM a", ["VARCHAR", "a.name"]),
    "not a condition": ("SELECT k FROM a WHERE k + 1", ["condition", "a.k"]),
    "not a date": ("SELECT k FROM a WHERE day > 'yesterday'", ["'yesterday'", "date"]),
    "missing window": ("SELECT a.k FROM a [ROWS 1] a, b WHERE a.k = b.k", ["'b'", "window", "(line 1, column 31)"]),
    "negative range": ("SELECT k FROM a [RANGE -5 SECONDS]", ["negative", "(line 1, column 24)"]),
    "negative rows": ("SELECT k FROM a [ROWS -5]", ["negative", "(line 1, column 23)"]),
    "no rows": ("SELECT k FROM a [ROWS 0]", ["0 rows"]),
    "half a row": ("SELECT k FROM a [ROWS 1.5]", ["whole number"]),
    "unknown unit": ("SELECT k FROM a [RANGE 5 PARSECS]", ["PARSECS", "line 1"]),
    "no unit": ("SELECT k FROM a [RANGE 5]", ["unit", "line 1"]),
    "endless window": ("SELECT k FROM a [RANGE 99999999999 DAYS]", ["window", "line 1"]),
    "slide": ("SELECT k FROM a [RANGE 5 SECONDS SLIDE 1 SECOND]", ["slides", "aggregate"]),
    "predicate window": ("SELECT k FROM a [START WHEN k = 1 END WHEN k = 2]", ["conditions", "aggregate"]),
    "hop": ("SELECT k FROM a HOP BY 5 SECONDS", ["'a'", "window"]),
    "hop twice": ("SELECT k FROM a [RANGE 1 s] HOP BY 5 SECONDS HOP BY 1 s", ["HOP BY", "line 1"]),
    "emit": ("SELECT k FROM a EMIT DELTA", ["EMIT", "HOP BY"]),
    "ambiguous column": (
        "SELECT k FROM a [ROWS 1] x, b [ROWS 1] y", ["'k' is ambiguous", "x.k, y.k", "(line 1, column 8)"],
    ),
    "doubled alias": ("SELECT x.k FROM a [ROWS 1] x, b [ROWS 1] x", ["alias 'x'", "twice"]),
    "doubled stream": ("SELECT 1 FROM a [ROWS 1], a [ROWS 1]", ["alias 'a'", "twice"]),
    "doubled output": ("SELECT k AS x, v AS x FROM a", ["'x'"]),
    "reserved output": ("SELECT k AS _time FROM a", ["'_time'", "reserved"]),
    "aggregate": ("SELECT SUM(k) FROM a", ["SUM", "window", "(line 1, column 8)"]),
    "count": ("SELECT COUNT(*) FROM a", ["COUNT", "window"]),
    "group by": ("SELECT k FROM a GROUP BY k", ["GROUP BY", "window", "(line 1, column 17)"]),
    "distinct": ("SELECT DISTINCT k FROM a", ["DISTINCT", "not supported yet"]),
    "order by": ("SELECT k FROM a ORDER BY k", ["ORDER BY", "not supported yet"]),
    "limit": ("SELECT k FROM a LIMIT 5", ["LIMIT", "not supported yet"]),
    "outer join": ("SELECT a.k FROM a [ROWS 1] LEFT JOIN b [ROWS 1] ON a.k = b.k", ["LEFT JOIN", "not supported"]),
    "subquery in from": ("SELECT k FROM (SELECT k FROM a) x", ["subquery", "window"]),
    "subquery in where": ("SELECT k FROM a WHERE k IN (SELECT k FROM b)", ["IN takes a list", "JOIN", "HOP BY"]),
    "union": ("SELECT k FROM a UNION SELECT k FROM b", ["UNION", "not supported yet"]),
    "with": ("WITH x AS (SELECT k FROM a) SELECT k FROM x", ["WITH", "not supported yet"]),
    "window function": ("SELECT row_number() OVER () FROM a", ["OVER"]),
    "list column": ("SELECT tags FROM a", ["a.tags", "list", "(line 1, column 8)"]),
    "struct column in where": ("SELECT k FROM a WHERE place IS NULL", ["a.place", "struct"]),
    "list column by star": ("SELECT * FROM a", ["a.tags", "list"]),
    "nested too deeply": ("SELECT " + "(" * 3000 + "k" + ")" * 3000 + " FROM a", ["nested too deeply"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_SQL)
def test_a_bad_query(folder: Folder, name: str) -> None:
    sql, holds = BAD_SQL[name]
    folder.scenario(sql)
    said = folder.replay_fails()
    for part in holds:
        assert part in said
    with pytest.raises(ms.MidstreamError):
        prepare(read_scenario(folder.path / "scenario.toml"))
    assert folder.fails("explain", "scenario.toml") == said


def test_a_place_counts_in_the_query_file(folder: Folder) -> None:
    folder.write("q.sql", "-- what we want\nSELECT k\nFROM a\nWHERE nme = 'x'\n")
    folder.scenario(head='query = "q.sql"')
    said = folder.replay_fails()
    assert "'nme'" in said
    assert "(line 4, column 7)" in said


def test_columns_of_other_types_do_no_harm_unused(folder: Folder) -> None:
    folder.scenario("SELECT k FROM a")
    assert folder.run("replay", "scenario.toml", "--quiet") == (0, "", "")


BAD_PLANS = {
    "(a a)": ["'a'", "twice"],
    "a": ["leaves out 'b'"],
    "(a c)": ["'c'", "a, b"],
    "((a b) c)": ["'c'", "a, b"],
    "(a b": ["'(a b'"],
    "(a b))": ["')'"],
    "a b": ["'b'"],
    "(a b a)": ["'(a b a)'"],
    ")(": ["')'"],
    "()": ["'()'"],
    "": ["''"],
    "(" * 3000: ["plan"],
}


@pytest.mark.parametrize("plan", BAD_PLANS)
def test_a_bad_plan(folder: Folder, plan: str) -> None:
    folder.scenario(run=f"plan = {json.dumps(plan)}")
    said = folder.replay_fails()
    assert "plan" in said
    for part in BAD_PLANS[plan]:
        assert part in said
    folder.scenario()
    assert folder.fails("explain", "scenario.toml", "--plan", plan) == said


def test_a_hash_join_without_an_equality(folder: Folder) -> None:
    folder.scenario("SELECT a.k FROM a [ROWS 1], b [ROWS 1] WHERE a.k < b.k", 'join = "hash"')
    said = folder.replay_fails()
    assert "hash" in said
    assert "(a) and (b)" in said
    folder.scenario()
    assert "merge" in folder.fails("explain", "scenario.toml", "--join", "merge")


BAD_SETTINGS = {
    'batch = "0 s"': ["batch", "'0 s'"],
    'batch = "-1 s"': ["batch", "'-1 s'"],
    'batch = "soon"': ["batch", "'soon'"],
    "batch = true": ["batch", "True"],
    "batch = 1.5": ["batch", "1.5"],
    "buckets = 0": ["buckets", "0"],
    "buckets = -3": ["buckets", "-3"],
    'buckets = "two"': ["buckets", "'two'"],
    "buckets = true": ["buckets", "True"],
    'runtime = "cloud"': ["'cloud'", "local"],
    'framework = "sites"': ["stream 'a' has no site", 'site = "..."', "[streams.a]"],
    'framework = "sites"\nplan = "(a b)"': ["[run] plan", "does not go with", "sites"],
    'framework = "sites"\nbuckets = 2': ["[run] buckets", "does not go with", "sites"],
    'framework = "sites"\nupdate = "sometimes"': ["'sometimes'", "centralized", "distributed", "off"],
    'framework = "sites"\nthreshold = -1': ["threshold", "-1"],
    'framework = "sites"\nthreshold = "much"': ["threshold", "'much'"],
    'framework = "sites"\nsite = ""': ["[run] site", "name of a site"],
    'framework = "sites"\n[[at]]\ntime = 5\nmigrate = "(b a)"': ["[[at]]", "sites"],
    'update = "off"': ["update", 'framework = "sites"'],
    '[[links]]\nfrom = "x"': ["[[links]] number 1", "needs to"],
    '[[links]]\nfrom = "x"\nto = "x"': ["[[links]] number 1", "itself"],
    '[[links]]\nfrom = "x"\nto = "y"\nbandwidth = "fast"': ["bandwidth", "'fast'", "kbit/s"],
    '[[links]]\nfrom = "x"\nto = "y"\nlatency = "-1 s"': ["latency", "-1 s"],
    "[[links]]\nlag = 5": ["[[links]] number 1", "'lag'"],
    'routing = "ticket"': ["routing", 'framework = "cacq"'],
    'framework = "cacq"\nrouting = "guess"': ["routing", "guess", "ticket"],
    'framework = "forest"': ["'forest'", "tree"],
    'join = "merge"': ["'merge'", "hash"],
    "plan = 5": ["plan", "5"],
    'lateness = "-1 s"': ["lateness", "'-1 s'"],
    'lateness = "a while"': ["lateness", "'a while'"],
    "late = 5": ["late", "5"],
    'late = ""': ["late"],
    'bacth = "1 s"': ["'bacth'", "did you mean 'batch'?"],
    'batch = "1 s"\n[[at]]\ntime = 5\nchange = "q2.sql"': ["[[at]]", "change", "q2.sql", "cannot be read"],
    'batch = "1 s"\n[[at]]\nmigrate = "(b a)"': ["[[at]] number 1", "needs time"],
    'batch = "1 s"\n[[at]]\ntime = "noon"\nmigrate = "(b a)"': ["[[at]] number 1", "noon", "timestamp"],
    'batch = "1 s"\n[[at]]\ntime = 5\nmigrate = "(b x)"': ["[[at]] number 1", "'x'"],
    'batch = "1 s"\n[[at]]\ntime = 5\nmigrate = "(b a)"\nstrategy = "hope"': ["[[at]] number 1", "hope", "hybrid"],
    'batch = "1 s"\n[[at]]\ntime = 5\nmigrate = "(b a)"\nbudgt = 3': ["[[at]] number 1", "budget"],
    'batch = "1 s"\n[extra]\nx = 1': ["'extra'"],
    'batch = "1 s"\nbatch = "2 s"': ["TOML", "line"],
    'batch = "1 s': ["TOML", "line"],
}


@pytest.mark.parametrize("run", BAD_SETTINGS)
def test_a_bad_setting(folder: Folder, run: str) -> None:
    folder.scenario(run=run)
    said = folder.replay_fails()
    assert "scenario.toml" in said
    for part in BAD_SETTINGS[run]:
        assert part in said


BAD_SCENARIOS = {
    "both": ('sql = "SELECT k FROM a"\nquery = "q.sql"\n[streams.a]\npath = "a.parquet"\ntime = "ts"', ["once"]),
    "neither": ('[streams.a]\npath = "a.parquet"\ntime = "ts"', ["query", "sql"]),
    "no query file": ('query = "no.sql"\n[streams.a]\npath = "a.parquet"\ntime = "ts"', ["no.sql"]),
    "query is no text": ('sql = 5\n[streams.a]\npath = "a.parquet"\ntime = "ts"', ["sql", "5"]),
    "no streams": ('sql = "SELECT k FROM a"', ["[streams]"]),
    "empty streams": ('sql = "SELECT k FROM a"\n[streams]', ["no streams"]),
    "stream is no table": ('sql = "SELECT k FROM a"\n[streams]\na = "a.parquet"', ["[streams.a]"]),
    "no path": ('sql = "SELECT k FROM a"\n[streams.a]\ntime = "ts"', ["[streams.a]", "path"]),
    "empty path": ('sql = "SELECT k FROM a"\n[streams.a]\npath = ""\ntime = "ts"', ["[streams.a]", "path"]),
    "no time": ('sql = "SELECT k FROM a"\n[streams.a]\npath = "a.parquet"', ["[streams.a]", "time"]),
    "unknown stream key": (
        'sql = "SELECT k FROM a"\n[streams.a]\npath = "a.parquet"\ntimes = "ts"',
        ["[streams.a]", "'times'", "did you mean 'time'?"],
    ),
    "bad lateness": (
        'sql = "SELECT k FROM a"\n[streams.a]\npath = "a.parquet"\ntime = "ts"\nlateness = "later"',
        ["[streams.a]", "lateness", "'later'"],
    ),
    "not TOML": ("this is no scenario", ["TOML", "line 1"]),
}


@pytest.mark.parametrize("name", BAD_SCENARIOS)
def test_a_bad_scenario(folder: Folder, name: str) -> None:
    text, holds = BAD_SCENARIOS[name]
    folder.write("scenario.toml", text + "\n")
    said = folder.replay_fails()
    assert "scenario.toml" in said
    for part in holds:
        assert part in said


def test_a_scenario_that_is_not_there_or_no_text(folder: Folder) -> None:
    assert "no.toml" in folder.fails("replay", "no.toml", "--out", "out.parquet")
    assert "a.parquet" in folder.fails("replay", "a.parquet", "--out", "out.parquet")
    (folder.path / "sub").mkdir()
    assert "sub" in folder.fails("replay", "sub", "--out", "out.parquet")


BAD_STREAMS: dict[str, tuple[str, "str | bytes | pa.Table | None", list[str]]] = {
    # name: (file, its content, what the sentence must hold)
    "missing": ("no.parquet", None, ["'a'", "no.parquet"]),
    "another kind": ("a.xlsx", b"PK", ["'a'", "a.xlsx", ".parquet"]),
    "garbage": ("a.parquet", b"this is no Parquet file at all", ["'a'", "a.parquet"]),
    "empty parquet": ("a.parquet", b"", ["'a'", "a.parquet"]),
    "footer of garbage": ("a.parquet", b"PAR1" + b"x" * 64 + b"PAR1", ["'a'", "a.parquet"]),
    "empty csv": ("a.csv", "", ["'a'", "a.csv"]),
    "csv with a short row": ("a.csv", "ts,k,v\n1,1,1\n2,2\n", ["'a'", "a.csv", "3 columns", "row 3"]),
    "csv with a long row": ("a.csv", "ts,k,v\n1,1,1,9\n", ["'a'", "a.csv", "3 columns", "4", "row 2"]),
    "csv with a short row far down": (
        "a.csv", "ts,k\n" + "1,1\n" * 200_000 + "1\n" + "1,1\n" * 10, ["'a'", "a.csv", "2 columns", "row 200002"],
    ),
    "no time column": ("a.parquet", pa.table({"when": [1], "k": [1]}), ["'a'", "'ts'", "when, k"]),
    "text as time": ("a.csv", "ts,k\nnoon,1\n", ["'a'", "'ts'", "string"]),
    "fractions as time": ("a.parquet", pa.table({"ts": [0.5], "k": [1]}), ["'a'", "'ts'", "double"]),
    "dates as time": ("a.parquet", pa.table({"ts": pa.array([1], pa.date32()), "k": [1]}), ["'a'", "'ts'", "date32"]),
    "null time": ("a.parquet", pa.table({"ts": [1, 2, None], "k": [1, 2, 3]}), ["'a'", "row 3", "'ts'"]),
    "empty time in csv": ("a.csv", "ts,k\n1,1\n,2\n", ["'a'", "row 2", "'ts'"]),
    "huge time": ("a.parquet", pa.table({"ts": [1, 2**63 - 1], "k": [1, 2]}), ["'a'", "row 2", str(2**63 - 1), "'ts'"]),
    "time beyond int64": (
        "a.parquet", pa.table({"ts": pa.array([2**64 - 1], pa.uint64()), "k": [1]}), ["'a'", "'ts'"],
    ),
    "timestamp beyond microseconds": (
        "a.parquet", pa.table({"ts": pa.array([2**55], pa.timestamp("ms")), "k": [1]}), ["'a'", "'ts'"],
    ),
    "value beyond its type": (
        "a.parquet", pa.table({"ts": [1], "k": pa.array([2**64 - 1], pa.uint64())}), ["'a'", "'k'"],
    ),
    "doubled column": ("a.csv", "ts,k,k\n1,1,1\n", ["'a'", "'k'"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_STREAMS)
def test_a_bad_stream(folder: Folder, name: str) -> None:
    file, content, holds = BAD_STREAMS[name]
    if content is not None:
        folder.write(file, content)
    folder.streams["a"] = file
    folder.scenario()
    said = folder.replay_fails()
    for part in holds:
        assert part in said


def test_a_folder_is_no_stream(folder: Folder) -> None:
    for name in ("c.csv", "c.parquet"):
        (folder.path / name).mkdir()
        folder.streams["a"] = name
        folder.scenario()
        assert name in folder.replay_fails()


def test_a_wrong_time_column_is_named_with_the_columns_there_are(folder: Folder) -> None:
    folder.times["b"] = "when"
    folder.scenario()
    said = folder.replay_fails()
    assert "'b'" in said
    assert "'when'" in said
    assert "ts, k, v" in said


def spoiled(content: bytes, where: float) -> bytes:
    """Overwrite a few pages of a Parquet file, its footer left whole."""
    start = int(len(content) * where)
    return content[:start] + b"\xff" * 2000 + content[start + 2000 :]


def test_damage_that_shows_up_in_the_middle_of_the_run(folder: Folder) -> None:
    rows = 300_000
    many = pa.table({"ts": range(rows), "k": [i * 7919 % 100_003 for i in range(rows)]})
    pq.write_table(many, folder.path / "a.parquet", row_group_size=50_000, compression="snappy", use_dictionary=False)
    folder.write("a.parquet", spoiled((folder.path / "a.parquet").read_bytes(), 0.9))
    folder.scenario("SELECT k FROM a", 'batch = "10 ms"')
    said = folder.replay_fails()
    assert "'a'" in said
    assert "cannot be read" in said


def test_a_truncated_file(folder: Folder, recorded: dict[str, bytes]) -> None:
    for share in (0.3, 0.9, 0.999):
        folder.write("a.parquet", recorded["a.parquet"][: int(len(recorded["a.parquet"]) * share)])
        said = folder.replay_fails()
        assert "'a'" in said
        assert "a.parquet" in said


@pytest.mark.parametrize("option", ["--out", "--report", "--late"])
def test_an_unwritable_place(folder: Folder, option: str) -> None:
    (folder.path / "sub").mkdir()
    for place in ("no/such/folder/x.parquet", "sub", "a.parquet/x", "."):
        said = folder.fails("replay", "scenario.toml", option, place)
        assert "cannot write" in said
        assert Path(place).name in said


@pytest.mark.parametrize("option", ["--out", "--report", "--late"])
def test_a_place_that_is_taken(folder: Folder, option: str) -> None:
    folder.write("q.sql", JOIN)
    folder.scenario(head='query = "q.sql"')
    (folder.path / "sub").mkdir()
    for place in ("a.parquet", "sub/../b.parquet", "scenario.toml", "q.sql"):
        assert place in folder.fails("replay", "scenario.toml", option, place)
    other = "--report" if option != "--report" else "--out"
    assert "x.parquet" in folder.fails("replay", "scenario.toml", option, "x.parquet", other, "x.parquet")


def test_a_device_is_not_replaced(folder: Folder) -> None:
    os.mkfifo(folder.path / "pipe")  # stands for /dev/null, which a test had better not risk
    assert "pipe" in folder.fails("replay", "scenario.toml", "--out", "pipe")
    assert (folder.path / "pipe").is_fifo()


def test_a_place_in_the_scenario_is_checked_as_well(folder: Folder) -> None:
    folder.scenario(run='late = "no/late.parquet"')
    assert "no/late.parquet" in folder.fails("replay", "scenario.toml", "--out", "out.parquet")


def test_one_bad_place_keeps_the_others_from_being_written(folder: Folder) -> None:
    said = folder.fails(
        "replay", "scenario.toml", "--out", "out.parquet", "--report", "no/report.json", "--late", "l.pq"
    )
    assert "no/report.json" in said


def test_benchmarks(folder: Folder) -> None:
    folder.write("list.json", "[1, 2]")
    folder.write("parameters.json", '{"name": "join4", "parameters": 5}')
    folder.write("good.json", '{"name": "join4", "rows_per_s": 5, "parameters": {"seed": 1}}')
    assert "'nosuch'" in folder.fails("bench", "nosuch")
    assert "join4" in folder.fails("bench", "nosuch", "--json", "bench.json")
    assert "no/bench.json" in folder.fails("bench", "theta", "--json", "no/bench.json")
    assert "-1" in folder.fails("bench", "theta", "--seconds", "-1")
    for bad in ("list.json", "parameters.json", "a.parquet", "no.json", "scenario.toml"):
        assert bad in folder.fails("compare", "good.json", bad)
        assert bad in folder.fails("compare", bad, "good.json")
    assert "two JSON files" in folder.fails("bench", "compare", "good.json")
    assert folder.run("compare", "good.json", "good.json")[0] == 0


SHELL_CASES = {
    "syntax": ({"sql": "SELECT k FROM a WHERE\n k = = 1"}, "(line 2, column 6)"),
    "plan": ({"run": 'plan = "(a c)"'}, "'c'"),
    "good": ({}, ""),
}


@pytest.mark.parametrize("name", few_quick(SHELL_CASES))
def test_what_a_shell_sees(folder: Folder, name: str) -> None:
    settings, holds = SHELL_CASES[name]
    folder.scenario(**settings)
    before = folder.snapshot()
    script = Path(sys.executable).with_name("midstream")
    argv = [str(script), "replay", "scenario.toml", "--out", "out.parquet", "--quiet"]
    done = subprocess.run(argv, cwd=folder.path, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout == ""
    assert holds in done.stderr
    if name == "good":
        assert (done.returncode, done.stderr) == (0, "")
        assert folder.snapshot().keys() - before.keys() == {"out.parquet"}
    else:
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert folder.snapshot() == before


def test_python_sees_the_same_errors(folder: Folder) -> None:
    engine = ms.Engine().stream("a", folder.path / "a.parquet", time="ts").stream("b", table(), time="ts")
    for sql, holds in BAD_SQL.values():
        with pytest.raises(ms.MidstreamError) as caught:
            engine.query(sql)
        for part in holds:
            assert part in str(caught.value)
    for plan in BAD_PLANS:
        with pytest.raises(ms.MidstreamError, match="plan"):
            engine.query(JOIN, plan=plan)


def test_python_refuses_what_it_cannot_run(folder: Folder) -> None:
    engine = ms.Engine().stream("a", folder.path / "a.parquet", time="ts").stream("b", table(), time="ts")
    for spoil in (
        lambda: engine.stream("a", table(), time="ts"),
        lambda: engine.stream("c", table(), time="when"),
        lambda: engine.stream("c", table(), time="name"),
        lambda: engine.stream("c", "no.parquet", time="ts"),
        lambda: engine.stream("c", object(), time="ts"),
        lambda: engine.stream("c", table(), time="ts", lateness="later"),
        lambda: engine.stream("c", table(), time="ts", lateness=-1),
        lambda: engine.stream("c", table(), time="ts", idle="a while"),
        lambda: engine.stream("c", table(), time="ts", idle=-1),
        lambda: engine.stream("c", table(), time="ts", ahead=0),
        lambda: engine.stream("c", table(), time=5),  # type: ignore[arg-type]
        lambda: engine.stream("", table(), time="ts"),
        lambda: engine.stream(None, table(), time="ts"),  # type: ignore[arg-type]
        lambda: engine.aggregate(5, len, "BIGINT"),  # type: ignore[arg-type]
        lambda: engine.aggregate("own", dict, "BIGINT"),
        lambda: engine.query(JOIN, plan=7),  # type: ignore[arg-type]
        lambda: engine.query(JOIN).start(sink=5),  # type: ignore[call-arg]
        lambda: engine.query(JOIN).start(sink="out", checkpoint=5),  # type: ignore[call-arg]
        lambda: ms.read(5),  # type: ignore[arg-type]
        lambda: ms.read("x" * 5000),
        lambda: engine.query(JOIN).start(sink="o\0.parquet"),
        lambda: engine.query(JOIN).start(sink="x" * 300 + ".parquet"),
        lambda: engine.query(JOIN).start(sink=folder.path / "out", checkpoint="c\0"),
        lambda: engine.query(JOIN, join="merge"),
        lambda: engine.query("SELECT k FROM a", join="merge"),
        lambda: engine.query(JOIN).start(batch="soon"),
        lambda: engine.query(JOIN).start(sink=folder.path / "no" / "out.parquet"),
        lambda: engine.query(JOIN).start(sink=folder.path),
        lambda: engine.query(JOIN).start(sink=folder.path / "out.parquet").table(),
        lambda: engine.query(JOIN).start(sink=folder.path / "a.parquet"),
        lambda: engine.query(JOIN).start(sink=folder.path / "new", checkpoint=folder.path / "b" / ".." / "new"),
        lambda: engine.query(JOIN, name=3),  # type: ignore[arg-type]
        lambda: engine.query(JOIN, name=" "),
        lambda: engine.query(JOIN).start(adapt=3),  # type: ignore[call-arg]
        lambda: engine.query(JOIN).start(framework="forest"),
        lambda: ms.Engine("local"),
        lambda: engine.query(JOIN).start(sink="", checkpoint=folder.path / "checkpoint"),
        lambda: engine.query(JOIN).start(sink=folder.path / "new", checkpoint=""),
    ):
        with pytest.raises(ms.MidstreamError):
            spoil()


def test_python_refuses_a_batch_or_buckets_of_nothing(folder: Folder) -> None:
    query = ms.Engine().stream("a", table(), time="ts").query("SELECT k FROM a")
    for wrong in (
        {"batch": 0},
        {"batch": "-1 s"},
        {"buckets": 0},
        {"buckets": -1},
        {"buckets": True},
        {"buckets": "2"},
    ):
        with pytest.raises(ms.MidstreamError, match=next(iter(wrong))):
            query.start(**wrong)


def test_a_time_that_is_none_ends_no_run() -> None:
    run = ms.Engine().stream("a", table(), time="ts").query("SELECT k FROM a").start(paused=True)
    for wrong in ("soon", None, True, 1.5, b"1", []):
        with pytest.raises(ms.MidstreamError, match="is not a timestamp"):
            run.advance(wrong)  # type: ignore[arg-type]
    assert run.finish().table().num_rows == table().num_rows


def test_a_run_that_breaks_leaves_nothing_behind(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even an error nobody thought of must not leave half a file."""
    before = folder.snapshot()
    rehearsal = prepare(read_scenario(folder.path / "scenario.toml"))

    def stop(rows: int) -> None:
        raise KeyboardInterrupt

    paths = [folder.path / name for name in ("out.parquet", "report.json", "late.parquet")]
    with pytest.raises(KeyboardInterrupt):
        replay(rehearsal, *paths, progress=stop)
    assert folder.snapshot() == before
