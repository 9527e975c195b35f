"""PostgreSQL and Valkey on one machine, from wheels: what ``plait up`` and the tests run on.

Both keep their data under one home directory, listen on Unix sockets only, outlive the process
that started them, and survive being killed. Starting one that runs returns the running one.
"""

from __future__ import annotations

from backend.embedded.errors import EmbeddedError
from backend.embedded.postgres import EmbeddedPostgres, start_postgres, stop_postgres
from backend.embedded.valkey import EmbeddedValkey, start_valkey, stop_valkey

__all__ = [
    "EmbeddedError",
    "EmbeddedPostgres",
    "EmbeddedValkey",
    "start_postgres",
    "start_valkey",
    "stop_postgres",
    "stop_valkey",
]
