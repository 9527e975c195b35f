"""Random inputs: the same for the same seed wherever they are made."""

from __future__ import annotations

import torch

from workers.graph.graph import TensorSpec
from workers.graph.random_inputs import LARGEST_INDEX, random_tensors

SPECS = {
    "image": TensorSpec((2, 3, 4), "float32"),
    "half": TensorSpec((5,), "bfloat16"),
    "token": TensorSpec((2, 100), "int64"),
    "mask": TensorSpec((100,), "bool"),
    "scalar": TensorSpec((), "float64"),
}


def test_tensors_are_as_specified() -> None:
    for name, tensor in random_tensors(SPECS, 7).items():
        assert tuple(tensor.shape) == SPECS[name].shape
        assert str(tensor.dtype) == f"torch.{SPECS[name].dtype}"


def test_a_seed_decides_everything() -> None:
    first, again, other = (random_tensors(SPECS, seed) for seed in (3, 3, 4))
    torch.manual_seed(99)
    assert all(torch.equal(first[name], again[name]) for name in SPECS)
    assert not torch.equal(first["image"], other["image"])


def test_indices_are_valid_and_masks_are_mixed() -> None:
    tensors = random_tensors(SPECS, 0)
    assert set(tensors["token"].flatten().tolist()) == set(range(LARGEST_INDEX))
    assert tensors["mask"].any()
    assert not tensors["mask"].all()
