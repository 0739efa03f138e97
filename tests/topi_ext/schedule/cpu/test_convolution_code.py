"""The code of scheduled convolutions: vectors, registers, and processors that this machine is not."""

import re
from typing import Any

import pytest
from kernel_cases import ConvolutionCase, convolution_function
from kernel_harness import compile_function, convolution_rule, host_cpus, prim_func, scheduled_by, target_for
from tvm import te, tirx
from tvm.target import Target

from topi_ext.kernel import direct_convolution
from topi_ext.workloads.convolution import ConvolutionWorkload

BLOCKED: dict[str, Any] = {"data_layout": "NCHW16c", "kernel_layout": "OIHW16i16o", "out_layout": "NCHW16c"}
CHANNELS_LAST: dict[str, Any] = {"data_layout": "NHWC", "kernel_layout": "HWIO", "out_layout": "NHWC"}


def test_the_padded_image_is_copied_by_vectors() -> None:
    case = ConvolutionCase(1, 16, 16, 9, 9, (3, 3), padding=(1, 1, 1, 1), **BLOCKED)
    func, _, _ = convolution_function(case)
    script = (
        scheduled_by(convolution_rule(target_for(host_cpus()[-1])), func, target_for(host_cpus()[-1]))
        .mod["main"]
        .script()
    )
    assert "data_pad" in script
    assert script.count("T.vectorized(16)") == 4


def loops_of(assembly: str) -> list[list[str]]:
    """Every loop of a listing, from its label to the jump back, innermost first."""
    lines = [line.split("#")[0].strip() for line in assembly.splitlines()]
    labels: dict[str, int] = {}
    found: list[tuple[int, int]] = []
    for place, line in enumerate(lines):
        if label := re.fullmatch(r"(\.LBB\w+):", line):
            labels[label[1]] = place
        elif (jump := re.fullmatch(r"j\w+\s+(\.LBB\w+)", line)) and jump[1] in labels:
            found.append((labels[jump[1]], place))
    return [lines[start : end + 1] for start, end in sorted(found, key=lambda loop: loop[1] - loop[0])]


def multiply_adds(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("vfmadd")]


@pytest.mark.parametrize(("cpu", "register"), [("x86-64-v4", "zmm"), ("x86-64-v3", "ymm")])
@pytest.mark.parametrize(
    "layouts", [BLOCKED, {**CHANNELS_LAST, "kernel_layout": "OHWI16o"}], ids=["NCHW16c", "NHWC"]
)
def test_the_inner_loop_stays_in_registers(layouts: dict[str, Any], cpu: str, register: str) -> None:
    """64 to 64 channels, 3x3, 56x56: one multiply-add per accumulator, none on the stack within a part."""
    case = ConvolutionCase(
        1, 64, 64, 56, 56, (3, 3), padding=(1, 1, 1, 1), epilogue="bias_relu", cpu=cpu, **layouts
    )
    func, _, _ = convolution_function(case)
    scheduled = scheduled_by(convolution_rule(target_for(cpu)), func, target_for(cpu)).mod["main"]
    loops = loops_of(compile_function(scheduled, target_for(cpu)).mod.inspect_source("asm"))
    innermost: list[list[str]] = []
    for loop in loops:
        if multiply_adds(loop) and not any(inner[0] in loop for inner in innermost):
            innermost.append(loop)
    assert innermost
    for loop in innermost:
        used = multiply_adds(loop)
        assert all(register in line for line in used), used
        accumulators = {line.split()[-1] for line in used}
        assert len(used) == len(accumulators) >= 8, loop
        assert len(used) >= 0.4 * len(loop), loop
    total = sum(len(multiply_adds(loop)) for loop in innermost)
    reduction = next(loop for loop in loops if len(multiply_adds(loop)) == total)
    on_stack = [line for line in reduction if line.startswith("v") and "(%rsp)" in line]
    # Totals of the sums are stored, and read and stored, between parts of the reduction.
    assert len(on_stack) <= 3 * total / len(innermost)
    assert not any(line in loop for loop in innermost for line in on_stack)


@pytest.mark.parametrize(
    "target",
    [
        {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76"},
        {"kind": "llvm", "mcpu": "x86-64"},
        {"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 16},
    ],
    ids=lambda target: target["mcpu"],
)
@pytest.mark.parametrize("layouts", [BLOCKED, CHANNELS_LAST, {}], ids=["NCHW16c", "NHWC", "NCHW"])
def test_other_processors_compile(layouts: dict[str, Any], target: dict[str, object]) -> None:
    case = ConvolutionCase(1, 32, 32, 9, 9, (3, 3), padding=(1, 1, 1, 1), epilogue="bias_relu", **layouts)
    func, _, _ = convolution_function(case)
    scheduled = scheduled_by(convolution_rule(Target(target)), func, Target(target)).mod["main"]
    compile_function(scheduled, Target(target))


def test_words_of_any_number_of_rows_are_loaded_once() -> None:
    """Each word of the data is for all vectors of a tile, of which most have two or more."""
    typical = ConvolutionWorkload(
        batch=1,
        in_channels=384,
        out_channels=1536,
        in_height=64,
        in_width=1,
        kernel=(1, 1),
        strides=(1, 1),
        padding=(0, 0, 0, 0),
        dilation=(1, 1),
        groups=1,
        data_layout="NHWC",
        kernel_layout="OI16o4i",
        out_layout="NHWC",
        dtype="uint8",
        out_dtype="int32",
    )
    data = te.placeholder((1, tirx.Var("n", "int64"), 1, 384), "uint8")
    weight = te.placeholder((96, 96, 16, 4), "int8")
    func = prim_func([data, weight, direct_convolution(data, weight, typical)], "int64")
    scheduled = scheduled_by(convolution_rule(target_for("znver4")), func, target_for("znver4")).mod["main"]
    assembly = compile_function(scheduled, target_for("znver4")).mod.inspect_source("asm")
    products, broadcasts = (assembly.count(name) for name in ("vpdpbusd", "vpbroadcastd"))
    assert 0 < broadcasts < products
