"""What a token or a session may do, and what one scope implies of another."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Scope(StrEnum):
    """``upload`` is for model files that are only data; ``upload:trusted`` also for formats
    that execute code when they are loaded (torch.export, TorchScript), and for measurements that
    everybody's schedules will be chosen by."""

    READ = "read"
    WRITE = "write"
    UPLOAD = "upload"
    UPLOAD_TRUSTED = "upload:trusted"
    ADMIN = "admin"


# Writing without reading helps nobody, so write includes read; neither includes uploading.
IMPLIED: dict[Scope, frozenset[Scope]] = {
    Scope.READ: frozenset({Scope.READ}),
    Scope.WRITE: frozenset({Scope.WRITE, Scope.READ}),
    Scope.UPLOAD: frozenset({Scope.UPLOAD}),
    Scope.UPLOAD_TRUSTED: frozenset({Scope.UPLOAD_TRUSTED, Scope.UPLOAD}),
    Scope.ADMIN: frozenset(Scope),
}


def expand(scopes: Iterable[str]) -> frozenset[Scope]:
    """Every scope that ``scopes`` grant, the implied ones included."""
    return frozenset().union(*(IMPLIED[Scope(scope)] for scope in scopes))
