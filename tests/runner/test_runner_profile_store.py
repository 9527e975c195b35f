"""The ProfileIndex in PostgreSQL keeps what every ProfileIndex keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy.orm import Session, sessionmaker
from support.profile_index import KEY, MEASURED, OpenIndex, ProfileIndexConformance

from workers.runner.profile_store import DatabaseIndex


class TestDatabaseIndex(ProfileIndexConformance):
    @pytest.fixture
    def open_index(self, sessions: sessionmaker[Session]) -> OpenIndex:
        return lambda: DatabaseIndex(sessions)

    def test_more_keys_than_a_query_has_parameters_for(self, open_index: OpenIndex) -> None:
        open_index().record({KEY: MEASURED})
        unknown = [replace(KEY, signature=str(number)) for number in range(16_384)]
        assert open_index().lookup([*unknown, KEY]) == {KEY: MEASURED}
