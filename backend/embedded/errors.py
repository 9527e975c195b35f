"""Why an embedded server could not be started or stopped."""

from __future__ import annotations


class EmbeddedError(RuntimeError):
    """Says what failed, and what the server itself logged about it."""
