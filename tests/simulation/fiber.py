"""Fibers: functions that can be left in the middle and gone on with later. One runs at a time, so all is in order.

resume ──▶ runs until it pauses, or ends ──▶ whoever resumed it goes on
"""

import threading
from collections.abc import Callable
from typing import Any

STACK_BYTES = 1 << 20


class Fiber:
    """A function on a thread of its own, which runs only while somebody waits for it in `resume`."""

    def __init__(self, function: Callable[[], Any], name: str) -> None:
        self.name = name
        self.done = False
        self.active = False
        self.failure: BaseException | None = None
        self._function = function
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread: threading.Thread | None = None

    def resume(self) -> None:
        """Go on until the next pause or the end."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()
        self.active = True
        self._go.release()
        self._back.acquire()
        self.active = False
        if self.done:
            self._thread.join()

    def pause(self) -> None:
        """Let whoever resumed this fiber go on; called from within."""
        self._back.release()
        self._go.acquire()

    def _run(self) -> None:
        self._go.acquire()
        try:
            self._function()
        except BaseException as failure:
            self.failure = failure
        self.done = True
        self._back.release()
