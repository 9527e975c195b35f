"""Every model builds, runs, exports, and keeps its activations' scale."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
import torch
from torch import Tensor, nn

from workers import zoo
from workers.zoo import rammer_rnns
from workers.zoo.initialise import initialise

HEAVY = ("bert_base", "convnext_xlarge", "nasnet_a_large", "vgg16")  # over half a GB, or slow
RECURRENT = {"deepspeech2": 2, "lstm_tc": 1, "seq2seq_nmt": 1}  # where the steps are
ONE_OF_EACH_FAMILY = (  # test_zoo_models and _structure export the others
    *("alexnet", "convnext", "deepfm", "deepspeech2", "googlenet", "lstm_tc", "mobilenet_v1"),
    *("nasbench_3", "resnet50", "seq2seq_nmt", "squeezenet", "t5_small"),
)

example_inputs = zoo.inputs  # a test replaces that of the package

Shapes = tuple[tuple[int, ...], ...]

OUTPUTS: dict[str, Shapes] = {
    "bert_base": ((2, 128, 768), (2, 768)),
    "deepfm": ((2, 1),),
    "deepspeech2": ((2, 75, 29),),
    "lstm_tc": ((2, 256),),
    "seq2seq_nmt": ((2, 128),),
    "t5_small": ((2, 128, 32128),),
    **dict.fromkeys(("nasnet_a_cifar", "resnext29_16x64d"), ((2, 10),)),
    **dict.fromkeys((f"nasbench_{seed}" for seed in range(5)), ((2, 10),)),
}
IMAGENET: Shapes = ((2, 1000),)

LIGHT = [name for name in zoo.names() if name not in HEAVY]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small operators on a busy machine wait for their threads longer than they compute."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@cache
def model(name: str) -> nn.Module:
    return zoo.build(name)


def outputs(model: nn.Module, arguments: tuple[Tensor, ...]) -> list[Tensor]:
    with torch.inference_mode():
        found = model(*arguments)
    return [found] if isinstance(found, Tensor) else list(found)


def random_arguments(name: str, batch_size: int, steps: int | None = None) -> tuple[Tensor, ...]:
    """Standard normal numbers, and indices of 0 and 1; recurrent models get that many steps."""
    generator = torch.Generator().manual_seed(batch_size)
    examples = example_inputs(name, batch_size)
    if steps is not None and name in RECURRENT:
        examples = tuple(x.narrow(RECURRENT[name], 0, steps) for x in examples)
    return tuple(
        torch.randn(x.shape, generator=generator)
        if x.is_floating_point()
        else torch.randint(0, 2, x.shape, generator=generator)
        for x in examples
    )


@pytest.mark.parametrize("name", LIGHT)
def test_outputs_have_their_shapes_and_a_sane_scale(name: str) -> None:
    found = outputs(model(name), random_arguments(name, 2))
    assert tuple(tuple(x.shape) for x in found) == OUTPUTS.get(name, IMAGENET)
    for x in found:
        assert x.isfinite().all()
        assert 0.01 < x.std() < 1000
        # What the two samples give differs: a wrong operator early on would be seen at the end.
        assert (x[0] - x[1]).abs().max() > 1e-4 * x.abs().max()


@pytest.mark.parametrize("name", HEAVY)
def test_outputs_of_large_models_have_their_shapes(name: str) -> None:
    entry = zoo.find(name)
    with torch.device("meta"):
        built = zoo.construct(entry).eval()
        found = outputs(built, zoo.inputs(name, 2))
    assert tuple(tuple(x.shape) for x in found) == OUTPUTS.get(name, IMAGENET)


@pytest.mark.parametrize("name", ONE_OF_EACH_FAMILY)
def test_a_program_for_any_batch_computes_what_the_model_does(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The same model, built once for all tests, and without the long unrolling.
    monkeypatch.setattr(zoo, "build", model)
    monkeypatch.setattr(rammer_rnns, "NMT_OUTPUTS", 2)
    steps = 8 if name == "deepspeech2" else 2
    monkeypatch.setattr(zoo, "inputs", lambda name, batch, _: random_arguments(name, batch, steps))
    program = zoo.program(name, None).module()
    for batch_size in (1, 3):
        arguments = random_arguments(name, batch_size, steps)
        expected = outputs(model(name), arguments)
        for found, wanted in zip(outputs(program, arguments), expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["squeezenet", "t5_small", "lstm_tc", "nasbench_0", "convnext"])
def test_weights_are_the_same_every_time(name: str) -> None:
    torch.manual_seed(1)
    again = zoo.build(name).state_dict()
    first = model(name).state_dict()
    assert first.keys() == again.keys()
    assert all(torch.equal(first[weight], again[weight]) for weight in first)


def test_a_parameter_without_a_rule_is_refused() -> None:
    class Unknown(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

    with pytest.raises(TypeError, match=r"'scale' of module '1'"):
        initialise(nn.Sequential(nn.ReLU(), Unknown()), 0)
