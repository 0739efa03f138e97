"""Winograd's kernels beside the definition: random workloads, and one kernel with one epilogue checked."""

import platform
import random
from dataclasses import replace

import numpy as np
from kernel_harness import Array, check_kernel, host_cpus, prim_func, target_for
from kernel_reference import convolve, pack
from numpy.typing import NDArray
from tvm import te, tirx, topi
from tvm.target import Target

from topi_ext.compute.winograd_any_size import winograd_any_size
from topi_ext.kernel import convolve as compute_convolution
from topi_ext.kernel import kernel_arguments, schedule
from topi_ext.knobs import WinogradKnobs
from topi_ext.machine.processor import processor_of
from topi_ext.schedule.cpu.winograd_any_size import schedule_winograd_any_size
from topi_ext.spaces.convolution import knob_space
from topi_ext.weights import winograd_weight
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.word_forms import ByteWeight, integer_form

LAYOUTS = [
    ("NCHW16c", "OIHW16i16o", "NCHW16c"),
    ("NCHW8c", "OIHW8i16o", "NCHW16c"),
    ("NHWC", "OHWI16o", "NHWC"),
    ("NCHW16c", "OIHW16i16o", "NHWC"),
    ("NCHW4c", "OIHW4i4o", "NCHW4c"),
]

CPU = host_cpus()[-1]


def runs(cpu: str) -> bool:
    """Can this machine execute code for it? What it needs least is taken for granted."""
    return platform.machine().lower() in ("x86_64", "amd64") and (cpu == "x86-64-v2" or cpu in host_cpus())


def random_workload(seed: int) -> ConvolutionWorkload:
    """Odd images and paddings; channels that no vector of full length divides in plain layouts."""
    rng = random.Random(seed)
    data, kernel, out = rng.choice(LAYOUTS)
    step = 16 if any(character.isdigit() for character in data + out) else 4
    channels = rng.randint(1, 4) * step, rng.randint(1, 4) * step
    if not all(character.isupper() for character in kernel):
        channels = channels[0], 16 * rng.randint(1, 3)
    return ConvolutionWorkload(
        batch=rng.randint(1, 3),
        in_channels=channels[0],
        out_channels=channels[1],
        in_height=rng.randint(3, 15),
        in_width=rng.randint(3, 15),
        kernel=(3, 3),
        strides=(1, 1),
        padding=(rng.randint(0, 2), rng.randint(0, 2), rng.randint(0, 2), rng.randint(0, 2)),
        dilation=(1, 1),
        groups=1,
        data_layout=data,
        kernel_layout=kernel,
        out_layout=out,
        dtype="float32",
        out_dtype="float32",
    )


def of_bytes(workload: ConvolutionWorkload, bits: int = 6) -> ConvolutionWorkload:
    """The same of bytes that are multiplied as int16, by weights that leave so many bits of int32 free."""
    wide = integer_form(replace(workload, dtype="uint8", out_dtype="int32"), words="wide")
    return replace(wide, spare_bits=bits)


def winograd_space(workload: ConvolutionWorkload, target: Target) -> list[WinogradKnobs]:
    return [
        knobs for _, knobs in knob_space(workload, processor_of(target)) if isinstance(knobs, WinogradKnobs)
    ]


EPILOGUES = ("none", "bias", "residual", "swish")

SYMBOLS = {"batch": "n", "in_height": "h", "in_width": "w"}


def check(
    workload: ConvolutionWorkload,
    knobs: WinogradKnobs,
    epilogue: str,
    seed: int,
    usual: ConvolutionWorkload | None = None,
    symbols: tuple[str, ...] = (),
    pad_value: int = 0,
    cpu: str | None = None,
) -> None:
    """``symbols`` are extents that the function does not know, of which the workload says one value.

    Of images of any size ``usual`` is the workload of a usual one.
    """
    rng = np.random.default_rng(seed)
    image, weight = images_and_weight(workload, rng)
    expected = convolved(image, weight, workload, pad_value)
    plain = f"NC{workload.spatial}"
    names = {field: tirx.Var(SYMBOLS[field], "int64") for field in symbols}
    function = replace(workload, **names)
    arguments = kernel_arguments(function, knobs)
    data, packed = (te.placeholder(shape, dtype) for shape, dtype in arguments[:2])
    tensors = [data, packed]
    inputs = [
        pack(image, plain, workload.data_layout),
        winograd_weight(weight, workload, knobs),
    ]
    if usual is None:
        result = compute_convolution(data, packed, function, knobs, pad_value)
    else:
        result = winograd_any_size(data, packed, usual, knobs, pad_value)
    if epilogue in ("bias", "residual"):
        shape = (
            expected.shape
            if epilogue == "residual"
            else (1, workload.out_channels, *[1] * len(workload.spatial))
        )
        term = (100 * rng.standard_normal(shape)).astype(workload.out_dtype)
        expected = np.maximum(expected + term, 0)
        stored = pack(term, plain, workload.out_layout)
        other = te.placeholder(result.shape if epilogue == "residual" else stored.shape, workload.out_dtype)
        tensors.append(other)
        inputs.append(stored)
        result = topi.nn.relu(topi.add(result, other))
    if epilogue == "swish":
        expected = expected / (1 + np.exp(-expected))
        real = topi.cast(result, "float32")
        result = topi.multiply(real, topi.sigmoid(real))
    check_kernel(
        prim_func([*tensors, result], "int64"),
        target_for(cpu or CPU),
        inputs,
        pack(expected, plain, workload.out_layout).astype(str(result.dtype)),
        tolerance=2e-4 if str(result.dtype) == "float32" else 0.0,
        case=(workload, knobs, epilogue, seed),
        schedule=lambda func, target: (
            schedule(func, function, knobs)
            if usual is None
            else schedule_winograd_any_size(func, usual, knobs)
        ),
    )


def images_and_weight(workload: ConvolutionWorkload, rng: np.random.Generator) -> tuple[Array, Array]:
    """Of integers, with the largest sums that the spare bits of the workload allow, of either sign."""
    planes, taps = workload.depth[:1], workload.depth[1:2]
    extents = (workload.batch, workload.in_channels, *planes, workload.in_height, workload.in_width)
    weights = (workload.out_channels, workload.in_channels, *taps, 3, 3)
    if workload.dtype == "float32":
        weight = rng.standard_normal(weights) / np.sqrt(9.0 * workload.summed_planes)
        return rng.standard_normal(extents).astype("float32"), weight.astype("float32")
    image = rng.integers(0, 256, extents, dtype="uint8")
    image[0, :, :4] = 255
    weight = rng.integers(-128, 128, weights, dtype="int8")
    weight[0], weight[-1] = 127, -128
    weight[:: max(2, workload.out_channels // 5)] //= 2
    while ByteWeight(weight).spare_bits < workload.spare_bits:
        weight //= 2
    return image, weight


def convolved(
    image: Array, weight: Array, workload: ConvolutionWorkload, pad_value: int = 0
) -> NDArray[np.float64]:
    """Planes of the result as sums of 2-D convolutions, one for each plane of the kernel."""
    if not workload.depth:
        top, left, bottom, right = workload.padding
        border = ((0, 0), (0, 0), (top, bottom), (left, right))
        return convolve(np.pad(image, border, constant_values=pad_value), weight)
    _, taps, stride, front, behind, apart = workload.depth
    padded = np.pad(image, ((0, 0), (0, 0), (front, behind), (0, 0), (0, 0)))
    return np.stack(
        [
            sum(
                convolve(padded[:, :, first + tap * apart], weight[:, :, tap], padding=workload.padding)
                for tap in range(taps)
            )
            for first in range(0, workload.out_depth * stride, stride)
        ],
        axis=2,
    )
