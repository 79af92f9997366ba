"""A stopwatch whose laps cover all time: what is not one phase is another."""

import time
from collections.abc import Callable


class Clock:
    """`synchronize` waits for the device, so that a lap holds the work that was started in it."""

    def __init__(self, synchronize: Callable[[], None]) -> None:
        self._synchronize = synchronize
        synchronize()
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last lap."""
        self._synchronize()
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        return seconds
