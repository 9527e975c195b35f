"""The parts that tuners are made of, each on what it alone decides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("xgboost")
pytest.importorskip("scipy")

from workers.tuning.points import Decision, PointSpace
from workers.tuning.tuners.annealing import diverse, mutated
from workers.tuning.tuners.chameleon import clustered, mode
from workers.tuning.tuners.measured import ranked
from workers.tuning.tuners.model import RankModel
from workers.tuning.tuners.order import scrambled, spread
from workers.tuning.tuners.ppo import Agent, PpoPolicy, Rollout


@given(st.lists(st.integers(1, 300), min_size=1, max_size=4))
def test_an_order_meets_every_index_once(counts: list[int]) -> None:
    assert sorted(spread(counts)) == list(range(sum(counts)))


@given(st.integers(1, 10**25), st.data())
def test_no_two_positions_share_an_index(count: int, data: st.DataObject) -> None:
    positions = data.draw(st.lists(st.integers(0, count - 1), min_size=1, unique=True))
    indices = {scrambled(position, count) for position in positions}
    assert len(indices) == len(positions)
    assert all(0 <= index < count for index in indices)


@pytest.mark.parametrize("count", [10_000, 10**9, 3 * 10**20])
def test_an_order_begins_all_over_every_sketch(count: int) -> None:
    first = [index for index, _ in zip(spread([count, 50, count]), range(192), strict=False)]
    for begin in (0, count + 50):
        mine = [index - begin for index in first if begin <= index < begin + count]
        assert len(mine) >= 64
        # The most significant digit, and one that is not, each in eight ways.
        assert {8 * index // count for index in mine} == set(range(8))
        assert {index // 64 % 8 for index in mine} == set(range(8))


def test_a_mutation_changes_one_knob_within_its_bounds() -> None:
    tile = Decision.tile([64], 3, -1)
    space = PointSpace([[tile, Decision.categorical([0, 1])], [tile, tile]])
    rng = np.random.default_rng(3)
    points = space.draw(rng, 500)
    moved = mutated(space, points, rng)
    assert (space.clipped(moved) == moved).all()
    same_sketch = moved[:, 0] == points[:, 0]
    assert ((moved != points).sum(axis=1)[same_sketch] == 1).all()
    assert 0 < same_sketch.sum() < 500


def test_equal_options_are_passed_over_for_new_ones() -> None:
    points = np.asarray([(0, 1, 1), (0, 1, 2), (0, 5, 6)], np.int64)
    scores = np.asarray([1.0, 0.99, 0.0])
    assert diverse(points, scores, 2, weight=0.0).tolist() == [0, 1]
    assert diverse(points, scores, 2, weight=1.0).tolist() == [0, 2]


def test_visited_points_are_ranked_once_each() -> None:
    points = np.asarray([(0, 1), (0, 2), (0, 1), (0, 3)], np.int64)
    unique, scores = ranked(points, np.asarray([1.0, 3.0, 1.0, 2.0]))
    assert unique.tolist() == [[0, 2], [0, 3], [0, 1]]
    assert scores.tolist() == [3.0, 2.0, 1.0]


def test_clusters_are_as_many_as_there_are_groups() -> None:
    rng = np.random.default_rng(0)
    centres = 100 * np.eye(10)
    features = np.concatenate([centre + rng.normal(0, 0.01, (20, 10)) for centre in centres])
    labels, distances = clustered(features, 8, 40, 3.0, rng)
    assert len(set(labels.tolist())) in range(8, 12)
    assert len(labels) == len(distances) == 200


def test_clusters_stay_within_what_is_asked_for() -> None:
    features = np.random.default_rng(1).normal(size=(30, 3))
    labels, _ = clustered(features, 8, 5, 1.0, np.random.default_rng(2))
    assert len(set(labels.tolist())) <= 5
    labels, distances = clustered(features[:1], 8, 64, 1.02, np.random.default_rng(2))
    assert labels.tolist() == [0]
    assert distances.tolist() == [0.0]


def test_the_mode_is_each_knobs_most_frequent_option() -> None:
    assert mode(np.asarray([(0, 3, 1), (0, 3, 2), (1, 5, 2)], np.int64)) == (0, 3, 2)


def test_a_model_ranks_what_it_has_not_seen() -> None:
    rng = np.random.default_rng(0)
    features = rng.uniform(0, 6, (400, 4)).astype(np.float32)
    latencies = 1 + (features[:, 0] - 3) ** 2 + features[:, 1]
    latencies[features[:, 2] > 5] = np.inf
    model = RankModel()
    assert not model.trained
    model.fit(features[:300], latencies[:300])
    scores, works = model.predict(features[300:]), np.isfinite(latencies[300:])
    order = np.argsort(np.argsort(-scores[works]))
    expected = np.argsort(np.argsort(latencies[300:][works]))
    assert np.corrcoef(order, expected)[0, 1] > 0.9
    assert np.median(scores[~works]) < np.quantile(scores[works], 0.1)


def test_a_model_learns_nothing_from_failures_alone() -> None:
    model = RankModel()
    model.fit(np.zeros((5, 2), np.float32), np.full(5, np.inf))
    assert not model.trained
    assert model.predict(np.zeros((3, 2), np.float32)).tolist() == [0.0] * 3


def test_an_agent_learns_which_way_to_move() -> None:
    """Reward is knob 0 up and knob 1 down, knob 2 does not matter."""
    rng = np.random.default_rng(0)
    agent = Agent(3, rng, PpoPolicy(entropy_weight=0.01))

    def rollout() -> Rollout:
        states = rng.uniform(-1, 1, (10, 32, 3))
        actions = np.stack([agent.act(each) for each in states])
        rewards = (actions[..., 0] - actions[..., 1]).astype(np.float64)
        return Rollout(states, actions, rewards, rng.uniform(-1, 1, (32, 3)))

    before = rollout()
    assert abs(before.rewards.mean()) < 0.3
    assert set(np.unique(before.actions)) == {0, 1, 2}
    for _ in range(25):
        agent.learn(rollout())
    after = rollout()
    assert after.rewards.mean() > 1.4
    assert set(np.unique(after.actions[..., 2])) == {0, 1, 2}


def test_the_gradient_is_that_of_the_objective() -> None:
    """Against finite differences of the clipped objective, written out anew."""
    rng = np.random.default_rng(1)
    agent = Agent(2, rng, PpoPolicy(hidden=4))
    states, actions = rng.normal(size=(6, 2)), rng.integers(3, size=(6, 2))
    advantages, returns = rng.normal(size=6), rng.normal(size=6)
    before = _log_probability(agent, states, actions) + rng.normal(0, 0.5, 6)

    def loss() -> float:
        ratio = np.exp(_log_probability(agent, states, actions) - before)
        clip = np.clip(ratio, 1 - agent.policy.clip, 1 + agent.policy.clip)
        _, logs, values = agent._forward(states)
        entropy = -(np.exp(logs) * logs).sum(axis=(1, 2))
        return float(
            np.mean(
                -np.minimum(ratio * advantages, clip * advantages)
                + agent.policy.value_weight * (values - returns) ** 2 / 2
                - agent.policy.entropy_weight * entropy
            )
        )

    gradients = agent._gradients(states, actions, before, advantages, returns)
    for name, weights in agent._weights.items():
        for at in np.ndindex(*weights.shape):
            weights[at] += 1e-6
            above = loss()
            weights[at] -= 2e-6
            below = loss()
            weights[at] += 1e-6
            assert gradients[name][at] == pytest.approx((above - below) / 2e-6, abs=1e-6)


def _log_probability(agent: Agent, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    _, logs, _ = agent._forward(states)
    return np.take_along_axis(logs, actions[:, :, None], axis=2)[:, :, 0].sum(axis=1)
