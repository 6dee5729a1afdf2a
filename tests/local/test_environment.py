"""Variables of the environment in pipelines and scenarios: their values are used, and shown as their names."""

import json
from pathlib import Path

import pytest

from midstream.live.checkpoint import Checkpoint
from midstream.local.scenario import read_scenario
from midstream.model import secrets
from midstream.model.errors import MidstreamError, PipelineError, ScenarioError
from midstream.model.secrets import keep_secret, mask, mask_bytes
from midstream.spark.pipeline_file import read_pipeline

PASSWORD = 'swörd"fish\\'
PIPELINE = """
name = "n"
sql = "SELECT value FROM a WHERE value > ${LEAST}"
checkpoint = "${FOLDER}/cp"
[streams.a]
format = "kafka"
time = "timestamp"
[streams.a.options]
subscribe = "a$b$$c"
literal = "$${PASSWORD}"
"kafka.sasl.jaas.config" = "login password=${PASSWORD};"
[sink]
format = "console"
[spark]
spark.some.secret = "${PASSWORD}"
spark.lists = "plain"
[run]
also_read = ["${STREAM}"]
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_named", {})
    for name, value in {"LEAST": "10000", "FOLDER": "elsewhere", "PASSWORD": PASSWORD, "STREAM": "a"}.items():
        monkeypatch.setenv(name, value)


def pipeline(folder: Path, text: str = PIPELINE) -> Path:
    file = folder / "p.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_variables_have_their_values(tmp_path: Path) -> None:
    read = read_pipeline(pipeline(tmp_path))
    assert read.sql == "SELECT value FROM a WHERE value > 10000"
    assert read.checkpoint == tmp_path / "elsewhere/cp"
    assert read.streams[0].options == {
        "subscribe": "a$b$$c",
        "literal": "${PASSWORD}",
        "kafka.sasl.jaas.config": f"login password={PASSWORD};",
    }
    assert read.spark == {"spark.some.secret": PASSWORD, "spark.lists": "plain"}
    assert read.also_read == ("a",)


def test_a_scenario_has_variables_too(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('sql = "SELECT 1"\n[streams.a]\npath = "${FOLDER}/a.csv"\ntime = "t"\n')
    assert read_scenario(tmp_path / "s.toml").streams[0].path == tmp_path / "elsewhere/a.csv"
    (tmp_path / "s.toml").write_text('sql = "SELECT 1"\n[streams.a]\npath = "${NOWHERE}/a.csv"\ntime = "t"\n')
    with pytest.raises(ScenarioError, match=r"streams\.a\.path needs the environment variable NOWHERE, which is not"):
        read_scenario(tmp_path / "s.toml")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("${MISSING}", "spark.x needs the environment variable MISSING, which is not set"),
        ("a${B-C}d", "spark.x has ${B-C}, which names no variable; write $${ for the text ${"),
        ("${}", "spark.x has ${}, which names no variable; write $${ for the text ${"),
        ("${PASSWORD", "spark.x has ${PASSWORD, which names no variable; write $${ for the text ${"),
    ],
)
def test_what_is_no_variable_is_refused(tmp_path: Path, written: str, said: str) -> None:
    file = pipeline(tmp_path, PIPELINE.replace("spark.lists", f'x = "{written}"\nspark.lists'))
    with pytest.raises(PipelineError) as refused:
        read_pipeline(file)
    assert str(refused.value) == f"pipeline {file}: {said}"


def test_keys_have_no_variables(tmp_path: Path) -> None:
    file = pipeline(tmp_path, PIPELINE.replace("spark.lists", '"${PASSWORD}" = "x"\nspark.lists'))
    with pytest.raises(PipelineError) as refused:
        read_pipeline(file)
    assert str(refused.value) == f"pipeline {file}: spark has a key with a variable, '${{PASSWORD}}': " + (
        "variables stand in values"
    )


def test_errors_name_the_variable_and_not_its_value(tmp_path: Path) -> None:
    file = pipeline(tmp_path, PIPELINE + 'plan = "x"\ntrigger = "${PASSWORD}"\n')
    with pytest.raises(PipelineError) as refused:
        read_pipeline(file)
    assert "${PASSWORD}" in str(refused.value)
    assert "fish" not in str(refused.value)
    assert str(MidstreamError(f"cannot reach x with {PASSWORD}!")) == "cannot reach x with ${PASSWORD}!"


def test_status_events_and_logs_show_no_secrets(tmp_path: Path) -> None:
    read_pipeline(pipeline(tmp_path))
    checkpoint = Checkpoint(tmp_path / "cp")
    (tmp_path / "cp").mkdir()
    checkpoint.write_status({"state": "failed", "error": f"refused: {PASSWORD}", "more": [{"x": PASSWORD}]})
    checkpoint.events.add({"event": "failed", "error": f"refused: {PASSWORD}"})
    assert checkpoint.read_status()["error"] == "refused: ${PASSWORD}"
    assert checkpoint.events.all()[0]["error"] == "refused: ${PASSWORD}"
    written = "".join(file.read_text() for file in (tmp_path / "cp").iterdir())
    assert "fish" not in written
    assert mask_bytes(f"WARN {PASSWORD} \udcff".encode("utf-8", "surrogateescape")) == b"WARN ${PASSWORD} \xff"


def test_a_secret_that_is_a_number_or_a_word_spoils_no_status_and_no_event(tmp_path: Path) -> None:
    """A port is found in counts and times, a word in keys; ids and states are what Midstream goes by."""
    for name, value in {"PORT": "9092", "WORD": "state", "TABLE": "orders", "RUNS": "running"}.items():
        keep_secret(name, value)
    checkpoint = Checkpoint(tmp_path / "cp")
    (tmp_path / "cp").mkdir()
    said = {"state": "died", "rows_in": 190920, "late": 9092, "aliases": ["orders", "b"]}
    checkpoint.write_status({**said, "error": "orders: no host:9092"})
    found = checkpoint.read_status()
    assert {key: found[key] for key in said} == said
    assert found["error"] == "${TABLE}: no host:${PORT}"
    event = {"event": "snapshot", "id": "00000000009092000000-0badcafe", "batch": 1, "state": "running"}
    checkpoint.events.add(event)
    checkpoint.events.add({"event": "stopped", "batch": 19092, "reason": "no host:9092"})
    first, last = checkpoint.events.all()
    assert {key: first[key] for key in event} == event
    assert (last["batch"], last["reason"]) == (19092, "no host:${PORT}")


def test_each_line_of_a_secret_is_one() -> None:
    """Logs are lines, errors are the first of them, and files that hold passwords end with a line break."""
    keep_secret("KEY", "-----BEGIN KEY-----\nMIIEvQIBADAN\ntrue\n-----END KEY-----\n")
    keep_secret("FILE", " swordfish\n")
    assert mask_bytes(b"read MIIEvQIBADAN\n") == b"read ${KEY}\n"
    assert mask("no key: -----BEGIN KEY----- it is true") == "no key: ${KEY} it is true"
    assert mask("password=swordfish;") == "password=${FILE};"


def test_an_option_that_is_called_query_is_no_query(tmp_path: Path) -> None:
    option = 'query = "SELECT \'${PASSWORD}\'"\n"kafka.sasl.jaas.config"'
    read = read_pipeline(pipeline(tmp_path, PIPELINE.replace('"kafka.sasl.jaas.config"', option)))
    assert read.streams[0].options["query"] == f"SELECT '{PASSWORD}'"
    assert mask(PASSWORD) == "${PASSWORD}"


def test_what_stands_in_the_query_is_no_secret(tmp_path: Path) -> None:
    read_pipeline(pipeline(tmp_path))
    assert mask("more than 10000") == "more than 10000"


def test_the_longest_secret_counts() -> None:
    keep_secret("SHORT", "word")
    keep_secret("LONG", "password")
    keep_secret("TINY", "a")
    assert mask(json.dumps(["a password", "a word"])) == '["a ${LONG}", "a ${SHORT}"]'
