"""The ProfileIndex in PostgreSQL keeps what every ProfileIndex keeps."""

from __future__ import annotations

import pytest
from sqlalchemy.orm import Session, sessionmaker
from support.profile_index import OpenIndex, ProfileIndexConformance

from workers.runner.profile_store import DatabaseIndex


class TestDatabaseIndex(ProfileIndexConformance):
    @pytest.fixture
    def open_index(self, sessions: sessionmaker[Session]) -> OpenIndex:
        return lambda: DatabaseIndex(sessions)
