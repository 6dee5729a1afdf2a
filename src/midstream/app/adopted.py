"""Adopted queries as users start them: a streaming program of their own, its versions behind one gate and one sink."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstream.live.adopted.build import with_its_folder
from midstream.local.files import local_folder
from midstream.model.errors import MidstreamError
from midstream.model.time import parse_duration
from midstream.spark.query import SparkStream

if TYPE_CHECKING:
    from midstream.spark.adopted.run import AdoptedRun

AdoptedBuild = Callable[[Any, dict[str, Any]], Any] | str
"""A streaming program: a function of (spark, streams), or text `file.py:function`."""


@dataclass(frozen=True)
class AdoptedQuery:
    """A streaming program of the user's, ready to run."""

    name: str
    build: AdoptedBuild
    builds: tuple[AdoptedBuild, ...]
    streams: tuple[SparkStream, ...]
    spark: Any

    def start(
        self,
        sink: Any,
        checkpoint: str | Path,
        mode: str = "append",
        trigger: dict[str, Any] | None = None,
        keep: str | int | None = None,
    ) -> "AdoptedRun":
        """Start the program, or go on where its checkpoint left off, with the version that answered last.

        `sink` and `trigger` are as for a query of Midstream's; without a trigger there is a micro-batch a second.
        `mode` is Spark's output mode, append or update. `keep` says how much event time of the input is kept for
        versions to come: what their state reaches back, and the watermark's delay. Not given, all of it is.
        """
        from midstream.spark.adopted.run import AdoptedRun, AdoptedSettings, function_name  # PySpark is an extra

        given = [self.build, *self.builds]
        functions: dict[str, Any] = {}
        for build in given:
            if not isinstance(build, str) and functions.setdefault(function_name(build), build) is not build:
                raise MidstreamError(f"two programs are called '{function_name(build)}': a restart finds them by name")
        named = with_its_folder(self.build) if isinstance(self.build, str) else function_name(self.build)
        folder = local_folder(checkpoint, "the checkpoint")
        keep_us = None if keep is None else parse_duration(keep)
        settings = AdoptedSettings(self.name, named, functions, folder, mode, trigger or {}, keep_us)
        return AdoptedRun(self.spark, self.streams, sink, settings)
