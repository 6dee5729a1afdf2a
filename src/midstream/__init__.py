"""Midstream: continuous queries whose plan and meaning can be changed while they run."""

from midstream.lang.builder import col, fn, lit, stream, when
from midstream.model.errors import MidstreamError
from midstream.runtime.engine import Engine

__all__ = ["Engine", "MidstreamError", "col", "fn", "lit", "stream", "when"]
