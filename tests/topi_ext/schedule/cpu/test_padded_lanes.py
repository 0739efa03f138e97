"""Outputs that fill no vector: weights of the lanes left over are zeros, their results are not stored."""

import random
from dataclasses import replace
from typing import Any

import pytest
from kernel_cases import (
    EPILOGUES,
    ConvolutionCase,
    convolution_function,
    random_knobs,
    run_convolution,
    workload_of,
)
from kernel_harness import host_cpus

from topi_ext.compute import conv2d
from topi_ext.errors import RelayLayoutError
from topi_ext.knobs import ConvolutionKnobs, check_knobs
from topi_ext.workloads.convolution import ConvolutionWorkload


def padded_case(seed: int) -> ConvolutionCase:
    """The convolution of that seed: 1 to 33 outputs a group in lanes that they do not fill."""
    rng = random.Random(seed)
    while True:
        groups = rng.choice([1, 1, 2, 3])
        lanes = rng.choice([4, 8, 16])
        data_layout = rng.choice(["NHWC", "NHWC", "NCHW", "NCHW8c", "NCHW16c"])
        block = {"NCHW8c": 8, "NCHW16c": 16}.get(data_layout, 1)
        inputs = rng.randint(1, 33) if block == 1 else block * rng.randint(1, 2)
        group = "G" if groups > 1 else ""
        window = "HWI" if data_layout == "NHWC" else "IHW"
        reduced = f"{block}i" if block > 1 else ""
        pads = rng.random() < 0.7
        case = ConvolutionCase(
            batch=rng.randint(1, 3),
            in_channels=groups * inputs,
            out_channels=groups * rng.randint(1, 33),
            height=rng.randint(1, 12),
            width=rng.randint(1, 12),
            kernel=(rng.randint(1, 4), rng.randint(1, 4)),
            strides=(rng.randint(1, 3), rng.randint(1, 3)),
            padding=tuple(rng.randint(0, 2) for _ in range(4)) if pads else (0, 0, 0, 0),  # type: ignore[arg-type]
            dilation=(rng.randint(1, 2), rng.randint(1, 3)),
            groups=groups,
            data_layout=data_layout,
            kernel_layout=f"{group}O{window}{reduced}{lanes}o",
            out_layout="NHWC",
            epilogue=rng.choice(EPILOGUES),
            symbolic_batch=rng.random() < 0.15,
            index_dtype=rng.choice([None, "int64"]),
            cpu=rng.choice(host_cpus()),
            cores=rng.randint(1, 4),
        )
        if min(case.out_extents) >= 1 and case.macs <= 1_000_000 and case.padded_lanes:
            return case


@pytest.mark.parametrize("seed", range(40))
def test_random_convolution(seed: int) -> None:
    run_convolution(padded_case(seed))


@pytest.mark.parametrize("seed", range(1000, 1030))
def test_random_knobs(seed: int) -> None:
    case = padded_case(seed)
    knobs = random_knobs(workload_of(convolution_function(case)[0]), seed)
    run_convolution(replace(case, knobs=knobs))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(2000, 2400, 50))
def test_sweep(start: int) -> None:
    failures = []
    for seed in range(start, start + 50):
        case = padded_case(seed)
        knobs = random_knobs(workload_of(convolution_function(case)[0]), seed)
        try:
            run_convolution(replace(case, knobs=knobs if seed % 2 else None))
        except AssertionError as failure:
            failures.append(str(failure))
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("outputs", [1, 5, 15, 17, 31, 33])
@pytest.mark.parametrize("cpu", host_cpus())
def test_rows_by_a_matrix(outputs: int, cpu: str | None) -> None:
    run_convolution(
        ConvolutionCase(
            1,
            7,
            outputs,
            1,
            9,
            (1, 1),
            data_layout="WC",
            kernel_layout="OI16o",
            out_layout="WC",
            epilogue="bias_relu",
            cpu=cpu,
        )
    )


ODD = ConvolutionWorkload(
    batch=1,
    in_channels=6,
    out_channels=18,
    in_height=5,
    in_width=5,
    kernel=(3, 3),
    strides=(1, 1),
    padding=(1, 1, 1, 1),
    dilation=(1, 1),
    groups=2,
    data_layout="NHWC",
    kernel_layout="GOHWI8o",
    out_layout="NHWC",
    dtype="float32",
    out_dtype="float32",
)


@pytest.mark.parametrize(
    ("changes", "lanes"),
    [
        ({}, 8),
        ({"kernel_layout": "OHWI8o"}, 0),
        ({"kernel_layout": "HWIO"}, 0),
        ({"groups": 1, "kernel_layout": "OHWI16o"}, 16),
        ({"groups": 1, "kernel_layout": "OHWI8o", "out_channels": 16}, 0),
        ({"out_layout": "NCHW"}, 0),
    ],
)
def test_which_are_padded(changes: dict[str, Any], lanes: int) -> None:
    assert replace(ODD, **changes).padded_lanes == lanes


def test_lanes_are_those_of_the_kernel() -> None:
    check_knobs(ODD, ConvolutionKnobs(8, 5, 2))
    with pytest.raises(RelayLayoutError, match="16 lanes for blocks of 8"):
        check_knobs(ODD, ConvolutionKnobs(16, 5, 1))
    with pytest.raises(RelayLayoutError, match="tile of 24 channels of 16"):
        check_knobs(ODD, ConvolutionKnobs(8, 5, 3))


def test_a_kernel_without_the_zeros_is_refused() -> None:
    from tvm import te

    data, weight = te.placeholder((1, 5, 5, 3)), te.placeholder((2, 3, 3, 3, 8))
    with pytest.raises(RelayLayoutError, match="16 outputs of the kernel where 24 are needed"):
        conv2d(data, weight, data_layout="NHWC", kernel_layout="OHWI8o", out_layout="NHWC", out_channels=17)
