"""What the zoo holds: one table, read without torch."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Input:
    """One argument of a model: the shape of a single sample, without the batch dimension.

    ``longest`` is the greatest sequence length that may stand in place of the first dimension; None
    says that it is no sequence's, or cannot be changed.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    longest: int | None = None

    def at_length(self, sequence_length: int | None) -> tuple[int, ...]:
        """The shape with that sequence length, if this is a sequence and one is given."""
        if self.longest is None or sequence_length is None:
            return self.shape
        return (sequence_length, *self.shape[1:])


@dataclass(frozen=True, slots=True)
class Entry:
    """A model: ``factory`` is ``MODULE:CALLABLE`` below ``workers.zoo``, called with ``arguments``;
    ``source`` says in one line where the architecture was published. ``parameters`` is how many
    numbers it learns, if that was counted."""

    name: str
    factory: str
    source: str
    inputs: tuple[Input, ...]
    parameters: int | None
    arguments: tuple[int, ...] = ()

    def check_length(self, sequence_length: int | None) -> None:
        """Raises ValueError if the model cannot be given sequences of that length."""
        if sequence_length is None:
            return
        limits = [given.longest for given in self.inputs if given.longest is not None]
        if not limits:
            raise ValueError(
                f"the inputs of {self.name!r} are no sequences of choosable length; ask for no "
                "sequence length"
            )
        if not 1 <= sequence_length <= min(limits):
            raise ValueError(
                f"{self.name!r} takes sequences of 1 to {min(limits)}, not {sequence_length}"
            )


def _image(side: int) -> tuple[Input, ...]:
    return (Input("image", (3, side, side)),)


def _words(name: str, length: int) -> Input:
    return Input(name, (length,), "int64", longest=512)


def _nasbench(seed: int) -> Entry:
    return Entry(
        f"nasbench_{seed}",
        "nasbench:NasBench",
        f"Ying et al. 2019, Section 2: NAS-Bench-101, the cell drawn with seed {seed}",
        _image(32),
        parameters=None,
        arguments=(seed,),
    )


_ENTRIES = (
    # IOS
    Entry(
        "inception_v3",
        "inception_v3:InceptionV3",
        "Szegedy et al. 2016, Table 1, without the auxiliary classifier",
        _image(299),
        23_834_568,
    ),
    Entry(
        "squeezenet",
        "squeezenet:SqueezeNet",
        "Iandola et al. 2016, Table 1 (version 1.0) with the complex bypass of Figure 2",
        _image(224),
        1_589_672,
    ),
    Entry(
        "nasnet_a_large",
        "nasnet:nasnet_a_large",
        "Zoph et al. 2018, Table 2 and Figure 4: NASNet-A 6 @ 4032",
        _image(331),
        88_753_150,
    ),
    Entry(
        "randwire",
        "randwire:RandWire",
        "Xie et al. 2019, Table 1, regular regime: WS(32, 4, 0.75), 154 channels",
        _image(224),
        61_429_723,
    ),
    Entry(
        "resnet34", "resnet:resnet34", "He et al. 2016, Table 1, 34 layers", _image(224), 21_797_672
    ),
    Entry(
        "resnet50", "resnet:resnet50", "He et al. 2016, Table 1, 50 layers", _image(224), 25_557_032
    ),
    # Opara
    Entry(
        "googlenet",
        "googlenet:GoogLeNet",
        "Szegedy et al. 2015, Table 1, with batch normalisation as in torchvision",
        _image(224),
        6_624_904,
    ),
    Entry(
        "bert_base",
        "bert:BertBase",
        "Devlin et al. 2019, Section 3: BERT-base, uncased, with pooler, 128 words",
        (_words("words", 128), _words("segments", 128), _words("mask", 128)),
        109_482_240,
    ),
    Entry(
        "t5_small",
        "t5:T5Small",
        "Raffel et al. 2020, Section 3.7: T5-small, 128 words each way",
        (_words("source", 128), _words("target", 128)),
        60_506_624,
    ),
    Entry(
        "deepfm",
        "deepfm:DeepFM",
        "Guo et al. 2017, Figure 1 and Section 3.1: DeepFM, 39 fields as in Criteo's data",
        (Input("numbers", (13,)), Input("categories", (26,), "int64")),
        3_337_745,
    ),
    # Rammer
    Entry(
        "resnext29_16x64d",
        "resnet:resnext29_16x64d",
        "Xie et al. 2017, Section 5.3: ResNeXt-29, 16x64d, for CIFAR-10",
        _image(32),
        68_155_210,
    ),
    Entry(
        "resnext101_64x4d",
        "resnet:resnext101_64x4d",
        "Xie et al. 2017, Tables 1 and 4: ResNeXt-101, 64x4d",
        _image(224),
        83_455_272,
    ),
    Entry(
        "nasnet_a_cifar",
        "nasnet:nasnet_a_cifar",
        "Zoph et al. 2018, Table 1 and Figure 4: NASNet-A 6 @ 768, for CIFAR-10",
        _image(32),
        3_328_234,
    ),
    Entry(
        "alexnet",
        "alexnet:AlexNet",
        'Krizhevsky 2014, "One weird trick": AlexNet in one tower',
        _image(224),
        61_100_840,
    ),
    Entry(
        "deepspeech2",
        "rammer_rnns:DeepSpeech2",
        "Amodei et al. 2016, Section 3.5, at the sizes of Rammer's Table 1",
        (Input("spectrogram", (1, 300, 171)),),
        6_492_157,
    ),
    Entry(
        "lstm_tc",
        "rammer_rnns:LstmTc",
        "Hochreiter and Schmidhuber 1997, at the sizes of Rammer's Table 1",
        (Input("steps", (100, 256)),),
        5_253_120,
    ),
    Entry(
        "seq2seq_nmt",
        "rammer_rnns:Seq2Seq",
        "Sutskever et al. 2014, Section 2, at the sizes of Rammer's Table 1",
        (Input("words", (100, 128)),),
        1_579_008,
    ),
    *(_nasbench(seed) for seed in range(5)),
    # DOPpler
    Entry(
        "mobilenet_v1",
        "mobilenet_v1:MobileNetV1",
        "Howard et al. 2017, Table 1: MobileNet 1.0, 224 px",
        _image(224),
        4_231_976,
    ),
    Entry(
        "vgg16",
        "vgg:VGG16",
        "Simonyan and Zisserman 2015, Table 1, configuration D",
        _image(224),
        138_357_544,
    ),
    Entry(
        "resnet18", "resnet:resnet18", "He et al. 2016, Table 1, 18 layers", _image(224), 11_689_512
    ),
    Entry(
        "convnext",
        "convnext:convnext_tiny",
        "Liu et al. 2022, Section 3 and Table 9: ConvNeXt-T",
        _image(224),
        28_589_128,
    ),
    Entry(
        "convnext_xlarge",
        "convnext:convnext_xlarge",
        "Liu et al. 2022, Section 3: ConvNeXt-XL, the size that DOPpler measures",
        _image(224),
        350_196_968,
    ),
)

_BY_NAME = {entry.name: entry for entry in _ENTRIES}


FAMILIES = ("nasbench",)
"""Of these there is a model ``FAMILY_SEED`` for every seed of up to nine digits."""

_DRAWN = re.compile(r"nasbench_(0|[1-9][0-9]{0,8})")


def names() -> tuple[str, ...]:
    """The models of the table, in alphabetical order. Any other ``nasbench_SEED`` is known too."""
    return tuple(sorted(_BY_NAME))


def find(name: str) -> Entry:
    """The model of that name. Raises KeyError, naming those that there are, if there is none."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    if drawn := _DRAWN.fullmatch(name):
        return _nasbench(int(drawn[1]))
    raise KeyError(f"no model {name!r} in the zoo; known: {', '.join(names())}")


def known(name: str) -> bool:
    """Whether ``find`` would find it."""
    return name in _BY_NAME or _DRAWN.fullmatch(name) is not None
