"""The workloads of our evaluation: layers of published networks for one sample. The paper names the
families of its Table 2 but not the sizes that it measured; these are ours, two for each.

They are chosen such that a kernel which nobody tuned takes about 0.1 s on a CPU core or less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workers.tuning.program import Sizes
from workers.tuning.programs.layouts import SPACE


@dataclass(frozen=True, slots=True)
class Workload:
    """``source`` names the network and the layer."""

    name: str
    source: str
    sizes: Sizes


_PLAIN = {"bias": 0, "relu": 0}


def _spread(what: str, extents: tuple[int, ...]) -> dict[str, int]:
    """``what`` along each of the last dimensions of space."""
    axes = tuple(SPACE.values())[-len(extents) :]
    return {what + axis: extent for axis, extent in zip(axes, extents, strict=True)}


def _convolution(
    channels: int,
    extent: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...] | None = None,
    padding: tuple[int, ...] | None = None,
    **others: int,
) -> Sizes:
    """Without dilation; a stride of one and no padding where they are not given."""
    once, never = (1,) * len(extent), (0,) * len(extent)
    return {
        "batch": 1,
        "in_channels": channels,
        **_spread("", extent),
        **others,
        **_spread("kernel_", kernel),
        **_spread("stride_", stride or once),
        **_spread("padding_", padding or never),
    }


def _plain(sizes: Sizes) -> Sizes:
    """A convolution of float32 with nothing after it."""
    extent = tuple(sizes[axis] for axis in SPACE.values() if axis in sizes)
    return {**sizes, **_spread("dilation_", (1,) * len(extent)), **_PLAIN}


def _integers(sizes: Sizes) -> Sizes:
    return {name: size for name, size in _plain(sizes).items() if name not in _PLAIN}


def _raised(sizes: Sizes, *output_padding: int) -> Sizes:
    """A transposed convolution."""
    return {**sizes, **_spread("output_padding_", output_padding), **_PLAIN}


def _correlation(channels: int, height: int, width: int) -> Sizes:
    """Of PWC-Net: single pixels, displaced by up to 4 each way."""
    return {
        "batch": 1, "channels": channels, "height": height, "width": width, "kernel": 1,
        "max_displacement": 4, "stride": 1, "displacement_stride": 1, "padding": 4,
    }  # fmt: skip


def _product(rows: int, inner: int, columns: int) -> Sizes:
    return {"rows": rows, "inner": inner, "columns": columns}


def _attention(heads: int, length: int, head_size: int) -> Sizes:
    return {
        "batch": 1, "heads": heads, "queries": length, "keys": length, "head_size": head_size,
        "value_size": head_size,
    }  # fmt: skip


_OF_TABLE_2: dict[str, tuple[Workload, ...]] = {
    "conv1d_ncw": (
        Workload(
            "wav2vec2",
            "wav2vec 2.0 (Baevski et al. 2020), last layer of the encoder, 1 s at 16 kHz",
            _plain(_convolution(512, (99,), (2,), (2,), out_channels=512, groups=1)),
        ),
        Workload(
            "m5_conv3",
            "M5 (Dai et al. 2017, Table 1), third convolution, 4 s at 8 kHz",
            _plain(_convolution(128, (500,), (3,), None, (1,), out_channels=256, groups=1)),
        ),
    ),
    "conv1d_nwc": (
        Workload(
            "m5_conv4",
            "M5 (Dai et al. 2017, Table 1), fourth convolution, 4 s at 8 kHz",
            _plain(_convolution(256, (125,), (3,), None, (1,), out_channels=512)),
        ),
        Workload(
            "sentence_cnn",
            "sentence CNN (Kim 2014), filters over three words, 64 words",
            _plain(_convolution(300, (64,), (3,), out_channels=100)),
        ),
    ),
    "conv2d_hwcn": (
        Workload(
            "alexnet_conv5",
            "AlexNet (Krizhevsky 2014), fifth convolution",
            _plain(_convolution(256, (13, 13), (3, 3), None, (1, 1), out_channels=256)),
        ),
        Workload(
            "resnet50_expand5",
            "ResNet-50 (He et al. 2016, Table 1), 1×1 to 2048 channels in conv5",
            _plain(_convolution(512, (7, 7), (1, 1), out_channels=2048)),
        ),
    ),
    "conv2d_int8": (
        Workload(
            "resnet50_expand4",
            "ResNet-50 (He et al. 2016, Table 1), 1×1 to 1024 channels in conv4",
            _integers(_convolution(256, (14, 14), (1, 1), out_channels=1024)),
        ),
        Workload(
            "squeezenet_fire5",
            "SqueezeNet (Iandola et al. 2016, Table 1), expand 3×3 of fire5",
            _integers(_convolution(32, (27, 27), (3, 3), None, (1, 1), out_channels=128)),
        ),
    ),
    "conv2d_nchw": (
        Workload(
            "resnet50_conv3",
            "ResNet-50 (He et al. 2016, Table 1), 3×3 in conv3",
            _plain(_convolution(128, (28, 28), (3, 3), None, (1, 1), out_channels=128)),
        ),
        Workload(
            "squeezenet_fire2",
            "SqueezeNet (Iandola et al. 2016, Table 1), expand 3×3 of fire2",
            _plain(_convolution(16, (55, 55), (3, 3), None, (1, 1), out_channels=64)),
        ),
    ),
    "conv2d_nhwc": (
        Workload(
            "mobilenet_pointwise",
            "MobileNet (Howard et al. 2017, Table 1), 1×1 of 256 channels at 28×28",
            _plain(_convolution(256, (28, 28), (1, 1), out_channels=256)),
        ),
        Workload(
            "inception_v3_1x7",
            "Inception-v3 (Szegedy et al. 2016, Figure 6), 1×7 of 128 channels at 17×17",
            _plain(_convolution(128, (17, 17), (1, 7), None, (0, 3), out_channels=128)),
        ),
    ),
    "conv3d_ncdhw": (
        Workload(
            "voxnet_conv2",
            "VoxNet (Maturana and Scherer 2015), second convolution",
            _plain(_convolution(32, (14, 14, 14), (3, 3, 3), out_channels=32, groups=1)),
        ),
        Workload(
            "slowfast_res4",
            "SlowFast 4×16, R50 (Feichtenhofer et al. 2019, Table 1), 1×3×3 of the fast res4",
            _plain(
                _convolution(
                    32, (32, 14, 14), (1, 3, 3), None, (0, 1, 1), out_channels=32, groups=1
                )
            ),
        ),
    ),
    "conv3d_ndhwc": (
        Workload(
            "voxnet_conv1",
            "VoxNet (Maturana and Scherer 2015), first convolution",
            _plain(_convolution(1, (32, 32, 32), (5, 5, 5), (2, 2, 2), out_channels=32)),
        ),
        Workload(
            "slowfast_res2",
            "SlowFast 4×16, R50 (Feichtenhofer et al. 2019, Table 1), 3×1×1 of the fast res2",
            _plain(_convolution(32, (32, 56, 56), (3, 1, 1), None, (1, 0, 0), out_channels=8)),
        ),
    ),
    "correlation_nchw": (
        Workload(
            "pwcnet_level4",
            "PWC-Net (Sun et al. 2018), cost volume of level 4, images of 448×1024",
            _correlation(96, 28, 64),
        ),
        Workload(
            "pwcnet_level3",
            "PWC-Net (Sun et al. 2018), cost volume of level 3, images of 448×1024",
            _correlation(64, 56, 128),
        ),
    ),
    "depthwise_conv2d": (
        Workload(
            "mobilenet_first",
            "MobileNet (Howard et al. 2017, Table 1), first depthwise, 112×112",
            _plain(_convolution(32, (112, 112), (3, 3), None, (1, 1), multiplier=1)),
        ),
        Workload(
            "mobilenet_middle",
            "MobileNet (Howard et al. 2017, Table 1), depthwise of 512 channels at 14×14",
            _plain(_convolution(512, (14, 14), (3, 3), None, (1, 1), multiplier=1)),
        ),
    ),
    "dense": (
        Workload(
            "resnet50_classifier",
            "ResNet-50 (He et al. 2016, Table 1), classifier",
            {**_product(1, 2048, 1000), **_PLAIN},
        ),
        Workload(
            "bert_projection",
            "BERT-base (Devlin et al. 2019), projection of an attention's result, 32 words",
            {**_product(32, 768, 768), **_PLAIN},
        ),
    ),
    "dense_int8": (
        Workload(
            "resnet50_classifier",
            "ResNet-50 (He et al. 2016, Table 1), classifier",
            _product(1, 2048, 1000),
        ),
        Workload(
            "q8bert_intermediate",
            "Q8BERT (Zafrir et al. 2019), first layer of a feed-forward part, 16 words",
            _product(16, 768, 3072),
        ),
    ),
    "grouped_conv2d": (
        Workload(
            "resnext50_conv2",
            "ResNeXt-50 32×4d (Xie et al. 2017, Table 1), 3×3 in conv2",
            _plain(_convolution(128, (56, 56), (3, 3), None, (1, 1), out_channels=128, groups=32)),
        ),
        Workload(
            "resnext50_conv5",
            "ResNeXt-50 32×4d (Xie et al. 2017, Table 1), 3×3 in conv5",
            _plain(_convolution(1024, (7, 7), (3, 3), None, (1, 1), out_channels=1024, groups=32)),
        ),
    ),
    "matmul": (
        Workload(
            "transformer_feed_forward",
            "Transformer, base (Vaswani et al. 2017, Table 3), feed-forward, 32 words",
            {**_product(32, 512, 2048), **_PLAIN},
        ),
        Workload(
            "gpt2_attention",
            "GPT-2, small (Radford et al. 2019), queries, keys and values, 16 words",
            {**_product(16, 768, 2304), **_PLAIN},
        ),
    ),
    "tconv1d_ncw": (
        Workload(
            "melgan_first",
            "MelGAN (Kumar et al. 2019), first upsampling by 8, 32 frames",
            _raised(_convolution(512, (32,), (16,), (8,), (4,), out_channels=256, groups=1), 0),
        ),
        Workload(
            "melgan_last",
            "MelGAN (Kumar et al. 2019), last upsampling by 2, 32 frames",
            _raised(_convolution(64, (4096,), (4,), (2,), (1,), out_channels=32, groups=1), 0),
        ),
    ),
    "tconv3d_ncdhw": (
        Workload(
            "3dgan_first",
            "3D-GAN (Wu et al. 2016), first layer of the generator",
            _raised(_convolution(200, (1, 1, 1), (4, 4, 4), out_channels=512, groups=1), 0, 0, 0),
        ),
        Workload(
            "3dgan_last",
            "3D-GAN (Wu et al. 2016), last layer of the generator",
            _raised(
                _convolution(
                    64, (32, 32, 32), (4, 4, 4), (2, 2, 2), (1, 1, 1), out_channels=1, groups=1
                ),
                0, 0, 0,
            ),
        ),
    ),
    "lstm_cell": (
        Workload(
            "lstm_tc",
            "the LSTM of Rammer's Table 1 (Ma et al. 2020)",
            {"batch": 1, "inputs": 256, "hidden": 256},
        ),
        Workload(
            "gnmt",
            "GNMT (Wu et al. 2016), a layer of the decoder",
            {"batch": 1, "inputs": 1024, "hidden": 1024},
        ),
    ),
    "self_attention": (
        Workload(
            "bert_base",
            "BERT-base (Devlin et al. 2019), 128 words",
            _attention(12, 128, 64),
        ),
        Workload(
            "deit_tiny",
            "DeiT-Ti (Touvron et al. 2021, Table 1), an image of 224×224 in patches of 16×16",
            _attention(3, 197, 64),
        ),
    ),
}  # fmt: skip

_BEYOND: dict[str, tuple[Workload, ...]] = {
    "tconv2d_nchw": (
        Workload(
            "dcgan_last",
            "DCGAN (Radford et al. 2016, Figure 1), last layer of the generator",
            _raised(
                _convolution(128, (32, 32), (5, 5), (2, 2), (2, 2), out_channels=3, groups=1), 1, 1
            ),
        ),
    ),
    "batch_matmul": (
        Workload(
            "bert_scores",
            "BERT-base (Devlin et al. 2019), products of queries and keys, 128 words",
            {"batch": 12, **_product(128, 64, 128)},
        ),
    ),
}

TABLE_2 = tuple(_OF_TABLE_2)
"""The families of the paper's Table 2."""

WORKLOADS: Mapping[str, Mapping[str, Sizes]] = {
    family: {workload.name: workload.sizes for workload in found}
    for family, found in (_OF_TABLE_2 | _BEYOND).items()
}
"""Sizes by family and name."""

SOURCES: Mapping[str, str] = {
    f"{family}.{workload.name}": workload.source
    for family, found in (_OF_TABLE_2 | _BEYOND).items()
    for workload in found
}
"""Where each workload, ``FAMILY.NAME``, is from."""
