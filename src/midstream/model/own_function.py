"""A function of the user on its way to workers: pickled whole, wherever it was written; nobody has to import it."""

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import cloudpickle
import pyarrow as pa


class OwnFunction:
    """A function that can be pickled with everything it needs; a lambda, or one from a file that is no module, too."""

    def __init__(self, function: Callable[[pa.Array], Any]) -> None:
        self.function = function

    def __call__(self, values: pa.Array) -> Any:
        """Call the function."""
        return self.function(values)

    @cached_property
    def _whole(self) -> bytes:
        whole: bytes = cloudpickle.dumps(self.function)
        return whole

    def __reduce__(self) -> tuple[Callable[[bytes], "OwnFunction"], tuple[bytes]]:
        return _own_function, (self._whole,)


@cache
def _own_function(whole: bytes) -> OwnFunction:
    """Return a function that was pickled; a process has each once."""
    found = OwnFunction(cloudpickle.loads(whole))
    found.__dict__["_whole"] = whole
    return found
