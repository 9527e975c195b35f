"""What a worker tells of its devices."""

from __future__ import annotations

from importlib.util import find_spec

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from backend.db.tables import Device
from backend.devices.schemas import Capabilities
from workers.app import device_queue
from workers.devices import discover
from workers.runner.lanes import HOST, is_simulated, lane_of
from workers.runner.registration import register


def test_every_device_is_registered_with_its_own_providers(
    sessions: sessionmaker[Session],
) -> None:
    offered = discover()
    register(sessions, "host:1", offered)
    register(sessions, "host:2", offered)  # a worker that was started again
    with sessions(expire_on_commit=False) as session:
        rows = {row.name: row for row in session.scalars(select(Device))}
    assert set(rows) == {facts.name for facts in offered}
    for facts in offered:
        row = rows[facts.name]
        assert row.worker == "host:2"
        offer = Capabilities.model_validate(row.capabilities)
        assert offer.providers == list(facts.providers)
        tuned = find_spec("tvm") is not None and not facts.simulated
        assert (offer.kernels is not None) is tuned
        assert row.facts["simulated"] is facts.simulated is is_simulated(facts.name)
        if facts.gpu is not None:
            assert row.facts["gpu"]["sm_count"] == facts.gpu.sm_count


def test_devices_have_queues_and_lanes_of_their_names() -> None:
    names = [facts.name for facts in discover()]
    assert len({device_queue(name) for name in names}) == len(names)
    assert not any("," in device_queue(name) for name in names)  # they are listed with commas
    assert lane_of("cpu") == lane_of("sim:v100") == HOST
    assert len({lane_of("cuda:0"), lane_of("cuda:1"), HOST}) == 3
