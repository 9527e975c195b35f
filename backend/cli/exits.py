"""The exit codes of ``plait``; README and docs/cli.md list the same table."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    OK = 0
    JOB_FAILED = 1  # the job failed or was cancelled; for doctor: something is missing
    USAGE = 2
    UNREACHABLE = 3  # no service answers at that address
    REFUSED = 4  # the service said no: 4xx
    INTERRUPTED = 130
