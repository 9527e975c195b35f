"""The cost model of the tuners that have one: gradient-boosted trees that rank points by how fast
they are (AutoTVM: Chen et al., "Learning to Optimize Tensor Programs", 2018, Section 3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import xgboost

from workers.tuning.points import Features

Scores = np.ndarray[Any, np.dtype[np.float64]]
"""[n]: the higher, the faster a point is estimated to be."""

_TREES = 100
_PARAMETERS = {
    # Chen et al.'s rank objective: only the order of two candidates counts, not their latencies.
    "objective": "rank:pairwise",
    "lambdarank_pair_method": "mean",
    "lambdarank_num_pair_per_sample": 32,
    "max_depth": 3,
    "eta": 0.2,
    "min_child_weight": 0.1,
    "tree_method": "hist",
    # One thread sums in one order, so that the same answers give the same trees.
    "nthread": 1,
    "seed": 0,
    "verbosity": 0,
}


class RankModel:
    """Trained anew on everything whenever there is something new, as AutoTVM does."""

    def __init__(self) -> None:
        self._booster: Any = None

    @property
    def trained(self) -> bool:
        """Whether it can tell anything: not before one candidate had a latency."""
        return self._booster is not None

    def fit(self, features: Features, latencies_ms: Scores) -> None:
        """Learn from latencies in ms, infinite what failed; nothing if all of them are."""
        finite = np.isfinite(latencies_ms)
        if not finite.any() or len(latencies_ms) < 2:
            return
        # Throughput relative to the best; what failed is slower than everything else.
        labels = np.zeros(len(latencies_ms))
        fastest = np.maximum(latencies_ms[finite].min(), np.finfo(float).tiny)
        labels[finite] = fastest / np.maximum(latencies_ms[finite], fastest)
        data = xgboost.DMatrix(features, label=labels, nthread=1)
        data.set_group([len(labels)])
        self._booster = xgboost.train(_PARAMETERS, data, num_boost_round=_TREES)

    def predict(self, features: Features) -> Scores:
        """Scores of points; zeros while nothing is known."""
        if self._booster is None:
            return np.zeros(len(features))
        return np.asarray(self._booster.inplace_predict(features), np.float64)
