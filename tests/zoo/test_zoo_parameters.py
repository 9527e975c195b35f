"""How many numbers each model learns, against what was published."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from workers import zoo


@dataclass(frozen=True)
class Published:
    """``within`` is half of the last digit that was printed, or the standard deviation of a mean;
    0 if the number is exact."""

    parameters: float
    source: str
    within: float = 0


def lstm(inputs: int, hidden: int) -> int:
    """Four gates, each with a weight for every input and every output of the cell, and a bias."""
    return 4 * hidden * (inputs + hidden + 1)


TORCHVISION = "torchvision's documentation, num_params"
DERIVED = "Rammer's Table 1, counted by hand: no number was published"

PUBLISHED = {
    "alexnet": Published(61_100_840, TORCHVISION),
    "bert_base": Published(109_482_240, "bert-base-uncased of the transformers package"),
    "convnext": Published(28_589_128, TORCHVISION),
    "convnext_xlarge": Published(350e6, "Liu et al. 2022, Table 1", within=0.5e6),
    "deepfm": Published(
        (13 + 1) + 26 * 10_000  # first order
        + (13 + 26 * 10_000) * 10  # latent vectors
        + (39 * 10 + 1) * 400 + 2 * (400 + 1) * 400 + (400 + 1),  # deep part
        "Guo et al. 2017 with 10,000 values a field, counted by hand: no number was published",
    ),
    "deepspeech2": Published(
        32 * 41 * 11 + 32 * 32 * 21 * 11 + 2 * 2 * 32  # convolutions, normalisation
        + lstm(32 * 86, 256) + 6 * lstm(256, 256)
        + 2 * 256 + 29 * (256 + 1),  # normalisation, classifier
        DERIVED,
    ),
    "googlenet": Published(6_624_904, TORCHVISION + ", without the auxiliary classifiers"),
    "inception_v3": Published(
        27_161_264 - 3_326_696, TORCHVISION + ", less those of the auxiliary classifier"
    ),
    "lstm_tc": Published(10 * lstm(256, 256), DERIVED),
    "mobilenet_v1": Published(4_231_976, "Keras's MobileNet, trainable parameters"),
    "nasnet_a_cifar": Published(3.3e6, "Zoph et al. 2018, Table 1", within=0.05e6),
    "nasnet_a_large": Published(88_753_150, "the pretrainedmodels package's nasnetalarge"),
    "randwire": Published(
        61.5e6, "Xie et al. 2019, regular regime, WS(4, 0.75), C = 154: 61.5 ± 1.32 M", 1.32e6
    ),
    "resnet18": Published(11_689_512, TORCHVISION),
    "resnet34": Published(21_797_672, TORCHVISION),
    "resnet50": Published(25_557_032, TORCHVISION),
    "resnext101_64x4d": Published(83_455_272, TORCHVISION),
    # 68,155,210: the paper cut the digits off
    "resnext29_16x64d": Published(68.1e6, "Xie et al. 2017, Table 7", within=0.1e6),
    "seq2seq_nmt": Published(12 * lstm(128, 128), DERIVED),
    "squeezenet": Published(
        1_248_424 + (97 * 128 + 129 * 256 + 257 * 384 + 385 * 512),
        TORCHVISION + ", and the four convolutions of the complex bypass",
    ),
    "t5_small": Published(60_506_624, "t5-small of the transformers package"),
    "vgg16": Published(138_357_544, TORCHVISION),
}  # fmt: skip


def drawn(name: str) -> bool:
    """Whether the model is a random one, of which nothing was published."""
    return name.startswith("nasbench_")


def test_every_model_has_a_published_number() -> None:
    assert {name for name in zoo.names() if not drawn(name)} == PUBLISHED.keys()


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_as_many_as_published(name: str) -> None:
    published = PUBLISHED[name]
    assert abs(zoo.parameters(name) - published.parameters) <= published.within, published.source


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_catalog_says_how_many_there_are(name: str) -> None:
    assert zoo.find(name).parameters == zoo.parameters(name)
