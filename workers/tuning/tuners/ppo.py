"""Proximal policy optimisation (Schulman et al., 2017) of an agent that moves knobs one option down
or up, in NumPy: two layers do not earn another framework its seconds of import, and one thread of
double precision gives the same search again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Actions = np.ndarray[Any, np.dtype[np.int64]]

MOVES = 3
"""What can be done to a knob: one option down, stay, one up."""


@dataclass(frozen=True, slots=True)
class PpoPolicy:
    """Parameters of the learning, with the usual names. Ahn et al. use PPO's defaults as far as
    these; the hidden layer's width and the size of a minibatch are ours."""

    hidden: int = 64
    step_size: float = 1e-3
    discount: float = 0.9
    gae: float = 0.99
    epochs: int = 3
    clip: float = 0.3
    value_weight: float = 1.0
    entropy_weight: float = 0.1
    minibatch: int = 256


@dataclass(frozen=True, slots=True)
class Rollout:
    """What agents beside each other met: ``states`` [steps, agents, knobs], the ``actions`` they
    took (of 0 … 2) in the same shape, and the ``rewards`` [steps, agents] those brought; ``last``
    [agents, knobs] are the states they ended in."""

    states: Array
    actions: Actions
    rewards: Array
    last: Array


class Agent:
    """An actor and a critic on one hidden layer: a state of ``knobs`` numbers gives the
    probability of each move of each knob, and the return that is expected."""

    def __init__(
        self, knobs: int, rng: np.random.Generator, policy: PpoPolicy | None = None
    ) -> None:
        self.policy = policy or PpoPolicy()
        self._knobs = knobs
        self._rng = rng
        hidden = self.policy.hidden
        self._weights = {
            "hidden": rng.normal(0, knobs**-0.5, (knobs + 1, hidden)),
            # Small, so that the first moves are as good as random.
            "actor": rng.normal(0, 0.01 * hidden**-0.5, (hidden + 1, knobs * MOVES)),
            "critic": rng.normal(0, hidden**-0.5, (hidden + 1, 1)),
        }
        self._adam = _Adam(self._weights, self.policy.step_size)

    def act(self, states: Array) -> Actions:
        """Moves [agents, knobs] of 0 … 2 drawn from the actor for ``states`` [agents, knobs]."""
        probabilities = np.exp(self._forward(states)[1])
        drawn = self._rng.random((*probabilities.shape[:2], 1))
        above = (drawn > probabilities.cumsum(axis=2)).sum(axis=2)
        return np.asarray(np.minimum(above, MOVES - 1), np.int64)

    def learn(self, rollout: Rollout) -> None:
        """Some epochs of the clipped objective on what was met."""
        states = rollout.states.reshape(-1, self._knobs)
        actions = rollout.actions.reshape(-1, self._knobs)
        advantages, returns = self._advantages(rollout)
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        before = _taken(self._forward(states)[1], actions)
        for _ in range(self.policy.epochs):
            order = self._rng.permutation(len(states))
            for start in range(0, len(order), self.policy.minibatch):
                some = order[start : start + self.policy.minibatch]
                gradients = self._gradients(
                    states[some], actions[some], before[some], advantages[some], returns[some]
                )
                self._adam.step(gradients)

    def _forward(self, states: Array) -> tuple[Array, Array, Array]:
        """The hidden layer [n, hidden], log-probabilities [n, knobs, 3] and values [n]."""
        hidden = np.tanh(_affine(states, self._weights["hidden"]))
        logits = _affine(hidden, self._weights["actor"]).reshape(-1, self._knobs, MOVES)
        logits -= logits.max(axis=2, keepdims=True)
        logs = logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))
        return hidden, logs, _affine(hidden, self._weights["critic"])[:, 0]

    def _advantages(self, rollout: Rollout) -> tuple[Array, Array]:
        """Generalised advantage estimates and the returns that the critic learns, both flat."""
        steps, agents = rollout.rewards.shape
        values = self._forward(rollout.states.reshape(-1, self._knobs))[2].reshape(steps, agents)
        following = self._forward(rollout.last)[2]
        advantages = np.zeros((steps, agents))
        running = np.zeros(agents)
        for step in reversed(range(steps)):
            error = rollout.rewards[step] + self.policy.discount * following - values[step]
            running = error + self.policy.discount * self.policy.gae * running
            advantages[step] = running
            following = values[step]
        return advantages.reshape(-1), (advantages + values).reshape(-1)

    def _gradients(
        self, states: Array, actions: Actions, before: Array, advantages: Array, returns: Array
    ) -> dict[str, Array]:
        """Of -(clipped objective) + value error - entropy, averaged over the minibatch. A move of
        all knobs is one action: its probability is the product of theirs."""
        hidden, logs, values = self._forward(states)
        count = len(states)
        ratio = np.exp(np.clip(_taken(logs, actions) - before, -20, 20))
        clipped = np.where(
            advantages > 0, ratio > 1 + self.policy.clip, ratio < 1 - self.policy.clip
        )
        by_log = np.where(clipped, 0.0, -ratio * advantages)
        probabilities = np.exp(logs)
        chosen = np.eye(MOVES)[actions]
        d_logits = by_log[:, None, None] * (chosen - probabilities)
        # d(-entropy)/d logit = p (log p + entropy)
        entropy = -(probabilities * logs).sum(axis=2, keepdims=True)
        d_logits += self.policy.entropy_weight * probabilities * (logs + entropy)
        d_actor = d_logits.reshape(count, -1) / count
        d_value = (self.policy.value_weight * (values - returns) / count)[:, None]
        d_hidden = (
            d_actor @ self._weights["actor"][:-1].T + d_value @ self._weights["critic"][:-1].T
        )
        return {
            "actor": _with_one(hidden).T @ d_actor,
            "critic": _with_one(hidden).T @ d_value,
            "hidden": _with_one(states).T @ (d_hidden * (1 - hidden**2)),
        }


class _Adam:
    """Adam (Kingma and Ba, 2015, Algorithm 1), which changes the weights it was given."""

    def __init__(self, weights: dict[str, Array], step_size: float) -> None:
        self._weights = weights
        self._step_size = step_size
        self._count = 0
        self._first = {name: np.zeros_like(weight) for name, weight in weights.items()}
        self._second = {name: np.zeros_like(weight) for name, weight in weights.items()}

    def step(self, gradients: dict[str, Array]) -> None:
        self._count += 1
        for name, gradient in gradients.items():
            self._first[name] += 0.1 * (gradient - self._first[name])
            self._second[name] += 0.001 * (gradient**2 - self._second[name])
            first = self._first[name] / (1 - 0.9**self._count)
            second = self._second[name] / (1 - 0.999**self._count)
            self._weights[name] -= self._step_size * first / (np.sqrt(second) + 1e-8)


def _with_one(array: Array) -> Array:
    """With a column of ones, whose weights are the biases."""
    return np.concatenate([array, np.ones((len(array), 1))], axis=1)


def _affine(array: Array, weights: Array) -> Array:
    return np.asarray(array @ weights[:-1] + weights[-1])


def _taken(logs: Array, actions: Actions) -> Array:
    """The log-probability of each row's whole action."""
    each = np.take_along_axis(logs, actions[:, :, None], axis=2)[:, :, 0]
    return np.asarray(each.sum(axis=1))
