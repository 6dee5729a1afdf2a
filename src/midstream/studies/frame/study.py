"""The contract of studies: cases that compute data, a picture, and claims that are judged by figures.

cases ──▶ data ──┬──▶ picture
                 └──▶ each claim: figures ──▶ verdict and why
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from midstream.studies.frame.data import Columns, Data
from midstream.studies.frame.scale import Scale

Figures = Mapping[str, Any]
"""What a claim is judged by: numbers, texts, and lists of them."""
Draw = Callable[[Data, Any], None]
"""Draws the data on a matplotlib figure."""


class Verdict(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    OTHER = "holds with another constant"
    NOT = "does not hold"


@dataclass(frozen=True)
class Finding:
    """A verdict, and in a sentence why."""

    verdict: Verdict
    why: str


def found(holds: bool, why: str, other: bool = False) -> Finding:
    """Return a finding: the claim holds, else with `other` it does so with another constant, else it does not."""
    return Finding(Verdict.HOLDS if holds else Verdict.OTHER if other else Verdict.NOT, why)


@dataclass(frozen=True)
class Claim:
    """What a paper claims, judged by figures that are read off the data.

    `broken` are figures that break it: a test sees that they do, so that no claim can hold whatever comes.
    """

    text: str
    figures: Callable[[Data], Figures]
    judge: Callable[[Figures], Finding]
    broken: Figures


@dataclass(frozen=True)
class Case:
    """A part of a study that is computed on its own and kept: a function at the top of a module, and what it is given.

    Cases of several studies that are the same are computed once. The values given become columns of what it returns.
    """

    function: Callable[..., Columns]
    given: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Return a name that says what is computed."""
        values = ", ".join(f"{name}={value}" for name, value in self.given.items())
        return f"{self.function.__module__.removeprefix('midstream.studies.')}.{self.function.__name__}({values})"


@dataclass(frozen=True)
class Study:
    """A figure or a table of a paper, done again."""

    name: str
    paper: str
    figure: str
    title: str
    about: str
    """What is run, and where it differs from the paper."""
    lesson: str
    """What to learn from it for choosing a strategy."""
    cases: Callable[[Scale], Sequence[Case]]
    draw: Draw
    claims: Sequence[Claim]
    size: tuple[float, float] = field(default=(7.0, 4.2))
    """Of the picture, in inches."""
