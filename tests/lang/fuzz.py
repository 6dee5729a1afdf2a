"""A fuzz of what people write: texts of queries and plans are torn, spliced and stretched, then read and explained.

    texts of tests, cases and docs ──▶ mutate ──▶ parse, bind ──▶ plan ──▶ explain, write, read ──▶ only MidstreamError
             ▲                           │
             └── what says something new ┘

`make fuzz SECONDS=3600` runs it until the time is up, and prints each text that brought anything else: another
exception, or more than 5 s of work. A seed and a number of texts say which texts are drawn: `fuzz.py --seed 3`.
"""

import argparse
import ast
import functools
import json
import random
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
from lang.fuzz_words import NAMES, NUMBERS, ODD, PLAN_WORDS, SIGNS, STRINGS, WINDOWS, WORDS

from midstream.lang.sql import parse_query
from midstream.local.explain import explain_migration, explain_plan
from midstream.local.replay import make_plan
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import MidstreamError
from midstream.model.stream import StreamSchema
from midstream.plan.json import read_plan, write_plan
from midstream.plan.plan import Plan

ROOT = Path(__file__).parents[2]
LONGEST_S = 5.0
"""More work than this is a hang."""
LONGEST_TEXT, LONGEST_MUTANT = 3000, 50_000
"""A text that is longer than the first is not mutated further; none is longer than the second."""
MOST_MEMORY_BYTES = 6_000_000_000

COLUMNS = pa.schema(
    [
        ("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64()), ("w", pa.int32()), ("x", pa.float64()),
        ("price", pa.float64()), ("qty", pa.int64()), ("s", pa.string()), ("name", pa.string()), ("d", pa.date32()),
        ("day", pa.date32()), ("t", pa.timestamp("us")), ("z", pa.timestamp("us", "UTC")), ("open", pa.bool_()),
        ("amount", pa.decimal128(10, 2)), ("big", pa.decimal128(38, 0)), ("tags", pa.list_(pa.string())),
        ("raw", pa.binary()), ("id", pa.int16()), ("f", pa.float32()), ("Unit", pa.string()), ("u", pa.uint64()),
    ]
)  # fmt: skip
CATALOG = [
    StreamSchema(name, COLUMNS, "ts") for name in ("a", "b", "c", "d", "s", "r", "orders", "prices", "stock", "bid")
]
TOKEN = re.compile(r"\s+|'(?:[^']|'')*'|\"[^\"]*\"|\d+(?:\.\d+)?|\w+|\[[^\]\[]*\]|::|<>|<=|>=|!=|\|\||.", re.S)


def corpus() -> list[str]:
    """Return every text of the tests, the golden cases and the docs that looks like a query."""
    found: list[str] = []
    for file in sorted([*ROOT.glob("tests/**/*.py"), *ROOT.glob("benchmarks/**/*.py"), *ROOT.glob("examples/**/*.py")]):
        if file.name == "fuzz.py":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    for file in sorted(ROOT.glob("tests/cases/*.case")):
        found += re.findall(r"^\[query\]\n(.*?)(?=^\[|\Z)", file.read_text(encoding="utf-8"), re.M | re.S)
    for file in sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]):
        found += re.findall(r"^```sql\n(.*?)^```", file.read_text(encoding="utf-8"), re.M | re.S)
        found += re.findall(r"`([^`\n]*(?:SELECT|FROM)[^`\n]*)`", file.read_text(encoding="utf-8"))
    found += [f.read_text(encoding="utf-8") for f in sorted(ROOT.glob("examples/**/*.sql"))]
    queries = {text.strip() for text in found if re.search(r"\b(SELECT|FROM)\b", text) and len(text) < LONGEST_TEXT}
    return sorted(queries)


@functools.cache
def good_texts(texts: tuple[str, ...]) -> list[str]:
    """Return those texts that are queries over the streams here."""

    def is_good(text: str) -> bool:
        try:
            parse_query(text, CATALOG)
        except MidstreamError:
            return False
        return True

    return list(filter(is_good, texts))


def mutate(rnd: random.Random, text: str, pool: list[str]) -> str:
    """Return a text with one to four things changed."""
    tokens = TOKEN.findall(text)
    for _ in range(rnd.choice((1, 1, 1, 1, 2, 2, 3))):
        tokens = _mutate(rnd, tokens, pool)
    return "".join(tokens)[:LONGEST_MUTANT]


def _mutate(rnd: random.Random, tokens: list[str], pool: list[str]) -> list[str]:
    at = rnd.randrange(len(tokens)) if tokens else 0
    end = min(len(tokens), at + rnd.choice((1, 1, 1, 2, 3, 5, 9, 20)))
    match rnd.randrange(14):
        case 0:
            return tokens[:at] + tokens[end:]
        case 1:
            return tokens[:at] + tokens[at:end] * rnd.choice((2, 2, 2, 3, 20)) + tokens[end:]
        case 2:
            other = rnd.randrange(len(tokens) + 1)
            return tokens[:other] + tokens[at:end] + tokens[other:]
        case 3 | 4 | 5:  # of the same kind
            return [*tokens[:at], _alike(rnd, tokens[at] if tokens else ""), *tokens[at + 1 :]]
        case 6:
            return [*tokens[:at], " ", _any(rnd), " ", *tokens[at:]]
        case 7:
            return [*tokens[:at], " ", _any(rnd), " ", *tokens[end:]]
        case 8 | 9:  # a part of another text
            others = TOKEN.findall(rnd.choice(pool))
            start = rnd.randrange(len(others)) if others else 0
            part = others[start : start + rnd.choice((1, 2, 4, 8, 16, 40))]
            return [*tokens[:at], " ", *part, " ", *tokens[end:]]
        case 10:
            times = rnd.choice((1, 1, 1, 2, 2, 3, 10, 60)) if rnd.random() < 0.98 else rnd.choice((400, 3000))
            before, after = rnd.choice((("(", ")"), ("NOT ", ""), ("-", ""), ("abs(", ")"), ("(SELECT ", ")"),
                                        ("CASE WHEN ", " THEN 1 END"), ("CAST(", " AS VARCHAR)")))  # fmt: skip
            return [*tokens[:at], before * times, *tokens[at:end], after * times, *tokens[end:]]
        case 11:
            whole = "".join(tokens)
            place = rnd.randrange(len(whole) + 1)
            return TOKEN.findall(whole[:place] + rnd.choice(ODD) + whole[place + rnd.randrange(2) :])
        case 12:
            return tokens[:at] if rnd.random() < 0.5 else tokens[at:]
        case _:
            if rnd.random() < 0.9:
                other = rnd.choice(pool)
                word = rnd.choice((" UNION ALL ", " EXCEPT ", " EXCEPT ALL ", " UNION ", " AND ", " , "))
                return [*tokens, word, *TOKEN.findall(other)]
            return [*tokens[:at], *tokens[at:end] * rnd.choice((100, 400)), *tokens[end:]]


def _alike(rnd: random.Random, token: str) -> str:
    if token[:1].isdigit():
        return rnd.choice(NUMBERS)
    if token[:1] == "'":
        return rnd.choice(STRINGS)
    if token[:1] == "[":
        return rnd.choice(WINDOWS)
    if token.upper() in WORDS or token in WORDS:
        return rnd.choice(WORDS)
    if token[:1].isalpha() or token[:1] in '_"':
        return rnd.choice(NAMES)
    return rnd.choice(SIGNS)


def _any(rnd: random.Random) -> str:
    return rnd.choice(rnd.choice((NUMBERS, STRINGS, WORDS, WORDS, SIGNS, NAMES, WINDOWS)))


class TooLong(BaseException):
    """A text has taken more time than any should."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TooLong inside when more than so much work, in time of the processor, has been done."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TooLong(f"more than {seconds} s of work")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def try_text(text: str, order: str | None = None, join: str = "auto", migrate: str | None = None) -> str:
    """Do with a query what a user can do without rows; return what was said, or the plan."""
    try:
        plan = make_plan(parse_query(text, CATALOG), order, join)
        said = explain_plan(plan, buckets=2)
        assert read_plan(json.loads(json.dumps(write_plan(plan)))) == plan, "the plan is another one when read back"
        if migrate is not None:
            explain_migration(plan, MigrationRequest.of(migrate, None, {}))
    except MidstreamError as error:
        said = str(error)
        assert said.strip(), "an error without a word"
        assert not re.search(r"<class|object at 0x|sqlglot|pyarrow\.|Traceback", said), f"it says: {said}"
    return said


def plan_text(rnd: random.Random, text: str) -> str:
    """Return something like a plan of a query: the one it would have, mutated."""
    try:
        plan: Plan | None = make_plan(parse_query(text, CATALOG))
    except MidstreamError:
        plan = None
    tokens = re.findall(r"\w+|.", str(plan) if plan is not None else "((a b) c)")
    for _ in range(rnd.randrange(4)):
        at = rnd.randrange(len(tokens) + 1)
        match rnd.randrange(4):
            case 0:
                tokens[at : at + 1] = [rnd.choice(PLAN_WORDS)]
            case 1:
                tokens[at:at] = [rnd.choice(PLAN_WORDS), rnd.choice(("", " "))]
            case 2:
                del tokens[at : at + rnd.randrange(1, 4)]
            case _:
                rnd.shuffle(tokens)
    return "".join(tokens)


@dataclass
class Fuzz:
    """Texts drawn from a seed; what brings something new to light is mutated on."""

    seed: int
    pool: list[str] = field(default_factory=corpus)
    kept: list[str] = field(default_factory=list)
    """Texts of which something new was said."""
    said: set[str] = field(default_factory=set)
    texts: int = 0
    planned: int = 0
    found: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rnd = random.Random(self.seed)
        self.good = good_texts(tuple(self.pool))

    def __str__(self) -> str:
        answers = f"{self.planned:,} were queries, {len(self.said):,} different answers"
        return f"{self.texts:,} texts, {answers}, {len(self.found)} found"

    def step(self) -> None:
        """Try one text."""
        rnd = self._rnd
        begun = rnd.choices((self.good, self.kept, self.pool), (6, 3 if self.kept else 0, 1))[0]
        text = mutate(rnd, rnd.choice(begun), self.pool)
        more: dict[str, Any] = {}
        with limited(4 * LONGEST_S):
            if rnd.random() < 0.05:
                more = {"order": plan_text(rnd, text)}
            elif rnd.random() < 0.05:
                more = {"migrate": plan_text(rnd, text)}
            elif rnd.random() < 0.02:
                more = {"join": rnd.choice(("hash", "nested-loop", "merge"))}
        self.texts += 1
        try:
            with limited(LONGEST_S):
                said = try_text(text, **more)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            frames = traceback.extract_tb(error.__traceback__)
            ours = next((f for f in reversed(frames) if "midstream" in f.filename), frames[-1])
            where = f"{type(error).__name__} {Path(ours.filename).name}:{ours.lineno} {str(error)[:80]}"
            if isinstance(error, TooLong):
                first = next((f for f in frames if "midstream/" in f.filename), frames[0])
                where = f"TooLong {Path(first.filename).name} {first.name}"
            key = re.sub(r"\d{3,}|'[^']*'", "·", where)
            if key not in self.found or len(text) < len(self.found[key][0]):
                self.found[key] = text, more
            return
        self.planned += said.startswith("Output")
        form = _form(said)
        if form not in self.said and len(text) < LONGEST_TEXT:
            self.said.add(form)
            self.kept.append(text)


def _form(said: str) -> str:
    """Return what was said without what was quoted: the words of an error, the operators of a plan."""
    if said.startswith("Output"):
        return " ".join(sorted(set(re.findall(r"[a-z]{4,}", said))))[:300]
    return " ".join(re.findall(r"\b[A-Za-z]{3,}\b", re.sub(r"'[^']*'|\"[^\"]*\"", "", said))[:16])


def main() -> None:
    """Fuzz until the time is up; print what was found, shortest text each."""
    asked = argparse.ArgumentParser(description=main.__doc__)
    asked.add_argument("--seconds", type=float, default=3600)
    asked.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    given = asked.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    fuzz, began, shown, noted = Fuzz(given.seed), time.monotonic(), 0, 0
    print(f"seed {given.seed}, {len(fuzz.pool)} texts to begin with", flush=True)
    while (spent := time.monotonic() - began) < given.seconds:
        fuzz.step()
        if len(fuzz.found) > noted:
            noted = len(fuzz.found)
            key, (text, more) = list(fuzz.found.items())[-1]
            print(f"FOUND {key}\n  {text!r:.3000} {more or ''}", flush=True)
        if spent > shown:
            shown += 60
            print(f"{spent:6.0f} s  {fuzz}", flush=True)
    print(f"seed {given.seed}: {fuzz}")
    for key, (text, more) in fuzz.found.items():
        print(f"{key}\n  {text!r:.3000} {more or ''}")
    sys.exit(1 if fuzz.found else 0)


if __name__ == "__main__":
    main()
