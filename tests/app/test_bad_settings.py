"""Every key of a scenario and of a pipeline, with every kind of value it cannot have: refused by its name, or meant.

A key times a value is a case. What is no error must be a setting that runs; anything else is one sentence that names
the file, and nothing is written.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from app.spoiled_folder import JOIN, Folder

from midstream.local.scenario import AT_KEYS, CHANGE_KEYS, CONTROL_KEYS, RUN_KEYS, STREAM_KEYS
from midstream.local.toml_file import AGGREGATE_KEYS
from midstream.model.errors import MidstreamError
from midstream.spark import pipeline_file
from midstream.spark.pipeline_file import read_pipeline
from seeds import few_quick

WILD = (
    "5", "-1", "0", "true", '""', '"\\u0000"', '" "', "[]", "{}", "inf", "nan", "1.5", "99999999999999999999", "[[]]",
    "2020-01-01", "12:00:00", '"99999999999999999999999999 days"', '"-1 s"', '"1e400 s"', '"\U0001f600"', '["a", 5]',
    '"a/../../etc/passwd\\nx"', '"(((("', '"SELECT"', "1979-05-27T07:32:00Z", '"0000-01-01"',
    '"9999-12-31T23:59:59-12:00"', '"' + "9" * 400 + ' s"', "-99999999999999999999",
)  # fmt: skip
"""Values as TOML writes them."""
STREAMS = '[streams.a]\npath = "a.parquet"\ntime = "ts"\n[streams.b]\npath = "b.parquet"\ntime = "ts"\n'
HEAD = f"sql = {json.dumps(JOIN)}\n"
AT = {
    "migrate": (AT_KEYS, {"time": "5", "migrate": '"(b a)"'}),
    "change": (CHANGE_KEYS, {"time": "5", "change": '"SELECT a.k, a.v FROM a [RANGE 1 SECOND] a"'}),
    "control": (CONTROL_KEYS, {"time": "5", "control": '"fstart"'}),
}


def written(table: dict[str, str]) -> str:
    return "".join(f"{key} = {value}\n" for key, value in table.items())


def scenarios() -> Iterator[tuple[str, list[str]]]:
    """Yield a key and the scenarios in which it has a wild value."""
    yield "sql", [f"sql = {value}\n{STREAMS}" for value in WILD]
    yield "query", [f"query = {value}\n{STREAMS}" for value in WILD]
    yield "versions", [f"versions = {value}\n{HEAD}{STREAMS}[[at]]\ntime = 5\nchange = 2\n" for value in WILD]
    for key in ("streams", "run", "at", "aggregates"):
        yield key, [f"{HEAD}{key} = {value}\n{'' if key == 'streams' else STREAMS}" for value in WILD]
    for key in STREAM_KEYS:
        stream = {"path": '"a.parquet"', "time": '"ts"'}
        spoiled = [written(stream | {key: value}) for value in WILD]
        yield f"streams.{key}", [f"{HEAD}{STREAMS.split('[streams.b]')[0]}[streams.b]\n{text}" for text in spoiled]
    for key in RUN_KEYS:
        yield f"run.{key}", [f"{HEAD}{STREAMS}[run]\n{key} = {value}\n" for value in WILD]
    for key in AGGREGATE_KEYS:
        spoiled = [written({"file": '"f.py"', "returns": '"BIGINT"', key: value}) for value in WILD]
        yield f"aggregates.{key}", [f"{HEAD}{STREAMS}[aggregates.mine]\n{text}" for text in spoiled]
    for kind, (keys, good) in AT.items():
        for key in keys:
            yield f"at.{kind}.{key}", [f"{HEAD}{STREAMS}[[at]]\n{written(good | {key: value})}" for value in WILD]


@pytest.mark.parametrize(("key", "texts"), few_quick(scenarios(), 12), ids=lambda v: v if isinstance(v, str) else "")
def test_a_key_of_a_scenario_with_a_wild_value(folder: Folder, key: str, texts: list[str]) -> None:
    folder.write("f.py", "def mine(values):\n    return len(values)\n")
    refused = 0
    for text in texts:
        folder.write("scenario.toml", text)
        code, out, err = folder.run("explain", "scenario.toml")
        assert "Traceback" not in out + err, text
        assert (code == 0 and not err) or (code == 2 and not out), (text, err)
        if code:
            refused += 1
            assert err.startswith("midstream: "), text
            assert err.count("\n") == 1, (text, err)
            assert len(err) < 1000, text
            if not key.startswith("at.") and key != "sql":
                assert any(part in err for part in ("scenario.toml", "'b'", "'mine'", key.split(".")[-1])), (text, err)
    assert refused > len(WILD) / 3, "nearly everything is taken"


PIPELINE = {
    "": {"sql": json.dumps(JOIN), "checkpoint": '"c"', "name": '"p"'},
    "streams.a": {"format": '"parquet"', "path": '"in"', "schema": '"ts BIGINT, k BIGINT, v DOUBLE"', "time": '"ts"'},
    "streams.b": {"format": '"rate"', "time": '"timestamp"'},
    "sink": {"format": '"folder"', "path": '"out"'},
    "run": {"buckets": "2"},
}
PIPELINE_KEYS: dict[str, tuple[str, ...]] = {
    "": tuple(k for k in pipeline_file.TOP_KEYS if k not in PIPELINE), "streams.a": pipeline_file.STREAM_KEYS,
    "sink": pipeline_file.SINK_KEYS, "run": pipeline_file.RUN_KEYS,
    "streams.a.options": ("maxFilesPerTrigger",), "spark": ("spark.sql.shuffle.partitions",),
}  # fmt: skip


def pipelines(place: str, key: str) -> Iterator[tuple[str, str]]:
    for value in WILD:
        tables: dict[str, dict[str, str]] = {name: dict(table) for name, table in PIPELINE.items()}
        tables.setdefault(place, {})[key] = value
        if place == "" and key == "query":
            del tables[""]["sql"]
        yield value, "".join(f"[{n}]\n{written(t)}" if n else written(t) for n, t in tables.items())


def refusal(file: Path) -> str | None:
    try:
        read_pipeline(file)
    except MidstreamError as error:
        return str(error)
    return None


@pytest.mark.parametrize("place", PIPELINE_KEYS)
def test_a_key_of_a_pipeline_with_a_wild_value(tmp_path: Path, place: str) -> None:
    file = tmp_path / "p.toml"
    for key in PIPELINE_KEYS[place]:
        for value, text in pipelines(place, key):
            file.write_text(text, encoding="utf-8")
            said = refusal(file)
            assert said is None or ("p.toml" in said and "\n" not in said), (key, value, said)
    assert not list(tmp_path.glob("[!p]*")), "reading writes nothing"


def test_unknown_keys_are_named_with_the_one_that_was_meant(folder: Folder) -> None:
    for text, holds in {
        f"{HEAD}{STREAMS}[run]\nbukets = 2\n": ("bukets", "buckets"),
        f"{HEAD}{STREAMS}latness = 2\n": ("latness", "lateness"),
        f"querry = 5\n{HEAD}{STREAMS}": ("querry", "query"),
        f'{HEAD}{STREAMS}[[at]]\ntime = 1\nmigrate = "(b a)"\nstratgy = "x"\n': ("stratgy", "strategy"),
        f'{HEAD}{STREAMS}[[at]]\ntime = 1\nchange = "SELECT 1"\nmethd = "x"\n': ("methd", "method"),
        f"{HEAD}{STREAMS}[aggregates.x]\nfunktion = 1\n": ("funktion", "function"),
        f"{HEAD}{STREAMS}[run]\n{'x' * 5000} = 1\n": ("x" * 5000, "it can have"),
    }.items():
        folder.write("scenario.toml", text)
        said = folder.replay_fails()
        for part in holds:
            assert part in said
