"""Whatever is written as a query or a plan is read or refused in a sentence: no other exception, no hang."""

import pytest
from lang.fuzz import LONGEST_S, Fuzz, limited, try_text

from seeds import seeds

FOUND = {
    "joins without a condition are read in every way": (
        "SELECT a.k FROM a [ROWS 5] a" + " JOIN b [ROWS 5] a" * 20 + " ON a.k = b.k", "more than 10 JOINs",
    ),
    "every second join without a condition": (
        "SELECT a.k FROM a [ROWS 5] a" + " JOIN b [ROWS 5] JOIN b [ROWS 5] ON a.k = b.k" * 20, "more than 10 JOINs",
    ),
    "a side of EXCEPT that selects nothing": (
        "SELECT k FROM stock [ROWS 1] a EXCEPT SELECT FROM stock [ROWS 1] b WHERE 1 > 2", "at least one column",
    ),
    "a chain of differences, tokenized again for each side": (
        "SELECT k FROM a [RANGE 4 SECONDS]" + " EXCEPT SELECT k FROM c [ROWS 1]" * 400, "at most 62 streams",
    ),
    "a number without its exponent": ("SELECT k FROM a WHERE x > 1e", "'1e' is not a number"),
    "a number with too many digits": ("SELECT k FROM a WHERE k > " + "9" * 5000, "is not a number"),
    "a number that takes for ever to write out": ("SELECT k FROM a [RANGE 1e99999999 SECONDS]", "is not a number"),
    "digits that are no number": ("SELECT CAST(k AS DECIMAL(a, 2)) FROM a", "DECIMAL takes"),
    "an interval of too many digits": ("SELECT k FROM a WHERE t > t + INTERVAL '" + "9" * 5000 + " s'", "too long"),
    "a place of too many digits": ("SELECT count(*) FROM a [ROWS 5 SLIDE 1] GROUP BY " + "9" * 5000, "is no place"),
}  # fmt: skip
"""Texts that once brought something else, and what is said of them."""


@pytest.mark.parametrize("name", FOUND)
def test_what_the_fuzz_has_found_is_refused_in_a_sentence(name: str) -> None:
    text, holds = FOUND[name]
    with limited(LONGEST_S):
        assert holds in try_text(text)


def test_ten_joins_may_wait_for_their_condition() -> None:
    joins = "".join(f" JOIN b [ROWS 5] b{k}" for k in range(4)) + "".join(f" ON a.k = b{k}.k" for k in range(4)[::-1])
    assert try_text(f"SELECT a.k FROM a [ROWS 5] a{joins}").startswith("Output")


@pytest.mark.parametrize("seed", seeds(0, 80))
def test_texts_that_are_torn_and_spliced(seed: int) -> None:
    fuzz = Fuzz(seed)
    for _ in range(200):
        fuzz.step()
    assert not fuzz.found
    assert fuzz.planned, "some of them are queries"
