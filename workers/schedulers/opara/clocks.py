"""What has ended when a Unit starts, told in one number for each stream (vector clocks).

A Unit waits for its dependencies and for the Unit before it on its stream. Everything on a stream
that is known to have ended is a beginning of that stream, so one number says how much of it: the
work up to there. Sources: Fidge, "Timestamps in Message-Passing Systems That Preserve the Partial
Ordering" (1988); Mattern, "Virtual Time and Global States of Distributed Systems" (1989).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Row = npt.NDArray[np.int64]


class Clocks:
    """Of Units that are put on ``streams`` streams in launch order; each one's ``work`` is
    positive."""

    def __init__(self, work: Sequence[int], streams: int) -> None:
        self._work = work
        self._rows = np.zeros((len(work), streams), np.int64)
        self._stream = [-1] * len(work)
        self._end = [0] * len(work)
        self._last = [-1] * streams
        self.totals = np.zeros(streams, np.int64)
        """The work put on each stream so far."""

    def before(self, needed: Sequence[int]) -> Row:
        """Of each stream the work that has ended when all of ``needed`` have."""
        if not needed:
            return np.zeros(len(self.totals), np.int64)
        known: Row = self._rows[needed[0]].copy()
        for unit in needed[1:]:
            np.maximum(known, self._rows[unit], out=known)
        return known

    def put(self, unit: int, stream: int, needed: Sequence[int]) -> int:
        """Put ``unit`` at the end of ``stream``. ``needed`` must end before it, and stands in the
        order of launching. Gives how many of them it must wait for: those that neither its stream
        nor another wait implies."""
        known = self._rows[unit]
        if self._last[stream] >= 0:
            known[:] = self._rows[self._last[stream]]
        waits = 0
        for before in reversed(needed):
            if known[self._stream[before]] < self._end[before]:
                waits += 1
                np.maximum(known, self._rows[before], out=known)
        self.totals[stream] += self._work[unit]
        known[stream] = self._end[unit] = int(self.totals[stream])
        self._stream[unit] = stream
        self._last[stream] = unit
        return waits
