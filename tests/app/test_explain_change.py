"""`midstream explain --change`: what people see before a query changes, and one sentence for what cannot be."""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from midstream.app.cli import main


@pytest.fixture
def midstream(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Run `midstream explain` on sums over 50 rows, ten rows a second; return exit code, stdout, stderr."""
    rows = pa.table({"ts": [n * 100_000 for n in range(300)], "k": [n % 7 for n in range(300)], "v": list(range(300))})
    for name in "sr":
        pq.write_table(rows, tmp_path / f"{name}.parquet")
    streams = "".join(f'[streams.{n}]\npath = "{n}.parquet"\ntime = "ts"\n' for n in "sr")
    (tmp_path / "scenario.toml").write_text(f'sql = "SELECT SUM(v) AS total FROM s [ROWS 50 SLIDE 1]"\n{streams}')
    for size in (10, 60):
        (tmp_path / f"sum{size}.sql").write_text(f"SELECT SUM(v) AS total FROM s [ROWS {size} SLIDE 1]\n")
    monkeypatch.chdir(tmp_path)

    def run(*argv: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["midstream", "explain", "scenario.toml", *argv])
        before = sorted(tmp_path.iterdir())
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        assert sorted(tmp_path.iterdir()) == before
        return code, *capsys.readouterr()

    return run


def cells(out: str, method: str) -> list[str]:
    """Return the words of a method's line in the table of guarantees, without the numbers of reasons."""
    line = next(line for line in out.splitlines() if line.replace("*", " ").split()[:1] == [method])
    return [word for word in line.replace("*", " ").split()[1:] if not word.startswith("(")]


def test_a_smaller_window(midstream) -> None:
    code, out, err = midstream("--change", "sum10.sql")
    assert (code, err) == (0, "")
    assert "a result reaches over: 50 rows of s" in out
    assert cells(out, "immediate") == ["no", "yes", "yes", "yes", "yes", "yes"]
    assert cells(out, "delayed-drain") == ["no", "yes", "yes", "yes", "here", "here"]
    assert cells(out, "drain/query") == ["yes", "yes", "no", "yes", "yes", "here"]
    assert cells(out, "drain/stream") == ["yes", "no", "yes", "yes", "yes", "here"]
    assert cells(out, "graceful-immediate") == ["no", "yes", "yes", "yes", "yes", "here"]
    assert cells(out, "graceful-drain") == ["yes", "no", "yes", "here", "yes", "here"]
    assert "results of the old query depend on 50 rows, those of the new one on 10" in out
    assert "the drain takes 49 more rows of s" in out
    assert "after 4.88 s" in out  # 49 rows, 300 in 29.9 s
    assert "* drain/stream is recommended" in out
    assert out.endswith("Nothing has been changed.\n")


def test_a_larger_window_has_it_all(midstream) -> None:
    out = midstream("--change", "sum60.sql")[1]
    assert cells(out, "drain/query") == ["yes", "yes", "here", "yes", "yes", "here"]
    assert "* drain/query is recommended: everything is guaranteed for these queries." in out


def test_what_matters_decides(midstream) -> None:
    for words, method in (
        ("resources", "immediate"),
        ("loss,query-order", "drain/query"),
        ("loss, stream-order", "drain/stream"),
        ("response,duplicates", "graceful-immediate"),
    ):
        assert f"* {method} is recommended: it " in midstream("--change", "sum10.sql", "--matters", words)[1]
    out = " ".join(midstream("--change", "sum10.sql", "--matters", "loss,order")[1].split())
    assert "by the LDD rule a change has at most two of no loss, query order and stream order" in out


def test_one_method_alone(midstream) -> None:
    out = midstream("--change", "sum10.sql", "--method", "drain", "--order", "query")[1]
    assert cells(out, "drain/query")
    assert "immediate" not in out
    assert "drain/stream " not in out.split("is recommended")[0].rsplit("*", 1)[0]
    out = midstream("--change", "sum10.sql", "--method", "drain")[1]
    assert cells(out, "drain/query")
    assert cells(out, "drain/stream")
    assert "graceful" not in out


def test_the_query_itself_instead_of_a_file(midstream) -> None:
    code, out, _ = midstream(
        "--change", "SELECT k, AVG(v) AS total FROM s [START WHEN v > 5 END WHEN k = 0] GROUP BY k"
    )
    assert code == 0
    said = " ".join(out.split())
    assert "it waits for the new query to answer: [START WHEN (s.v > 5) END WHEN (s.k = 0)] may never start" in said
    assert (
        "needs allow_schema_change: column 'total' was BIGINT and becomes DOUBLE; column 'k' (BIGINT) is added" in said
    )


def test_a_difference_is_refused_by_method(midstream) -> None:
    out = midstream("--change", "SELECT v AS total FROM s [ROWS 3] EXCEPT SELECT v FROM r [ROWS 3]")[1]
    assert cells(out, "immediate")[0] == "no"
    assert cells(out, "drain/query") == ["refused"]
    assert "* immediate is recommended: no other method is for these queries." in out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--change", "gone.sql"], "there is no query file gone.sql"),
        (["--change", "SELECT v FROM t"], "the new query: there is no stream 't'"),
        (
            ["--change", "sum10.sql", "--matters", "speed"],
            "'speed' is nothing that can matter to a change; it can be loss,",
        ),
        (["--change", "sum10.sql", "--method", "slowly"], "method is 'slowly'; it can be immediate,"),
        (
            ["--change", "sum10.sql", "--method", "immediate", "--order", "query"],
            "order is for drain, not for immediate",
        ),
        (["--change", "sum10.sql", "--order", "up"], "order is 'up'; it can be query, stream"),
        (["--change", "sum10.sql", "--strategy", "hybrid"], "--strategy goes with --migrate"),
        (["--change", "sum10.sql", "--migrate", "s"], "--migrate and --change are two things"),
        (["--method", "drain"], "--method goes with --change"),
        (["--order", "query"], "--order goes with --change"),
        (["--matters", "loss"], "--matters goes with --change"),
    ],
)
def test_bad_input_is_one_sentence(midstream, argv: list[str], said: str) -> None:
    code, out, err = midstream(*argv)
    assert (code, out) == (2, "")
    assert err.startswith(f"midstream: {said}"), err
    assert err.count("\n") == 1


def test_to_a_hopping_query(midstream) -> None:
    """Answers of hops reach over whole windows and may have no rows, so that graceful changes need not end."""
    code, out, err = midstream("--change", "SELECT SUM(v) AS total FROM s [RANGE 5 SECONDS] HOP BY 2 SECONDS")
    assert (code, err) == (0, "")
    assert "a result reaches over: 5 seconds" in out
    assert cells(out, "drain/query") == ["yes", "yes", "no", "yes", "yes", "here"]
    assert cells(out, "graceful-immediate") == ["no", "yes", "yes", "no", "yes", "no"]
    assert "column '_hop' (BIGINT) is added" in out


def test_from_a_hopping_query(midstream) -> None:
    file = Path("scenario.toml")
    file.write_text(file.read_text().replace("[ROWS 50 SLIDE 1]", "[RANGE 5 SECONDS] HOP BY 2 SECONDS EMIT DELTA"))
    code, out, err = midstream("--change", "SELECT SUM(v) AS total FROM s [RANGE 3 SECONDS] HOP BY 1 SECOND EMIT DELTA")
    assert (code, err) == (0, "")
    assert cells(out, "drain/stream") == ["yes", "no", "yes", "yes", "yes", "here"]
    assert "the drain takes 5 seconds" in out
    assert "The output changes" not in out
