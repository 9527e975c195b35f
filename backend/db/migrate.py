"""Migrations from code, without alembic.ini: the database's URL comes from the caller."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import migrations
from backend.db.session import normalise_url

LOCATION = Path(migrations.__file__).parent


@lru_cache(maxsize=1)
def head() -> str:
    """The revision that this version of the code needs."""
    return "0001"
