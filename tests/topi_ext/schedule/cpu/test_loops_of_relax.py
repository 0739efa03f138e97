"""Operators of Relax by the rule that takes every function, beside the same without a schedule."""

from collections.abc import Callable
from typing import Any

import kernel_bounds
import numpy as np
import pytest
import tvm
from kernel_harness import Array, compile_function, host_cpus, scheduled_by, target_for
from tvm import relax, tirx
from tvm.relax import op

from topi_ext.schedule.cpu.loops import LoopNest

TARGET = target_for(host_cpus()[-1])

SIZES = {"n": 3, "m": 5}
"""Values of the symbolic extents."""

Build = Callable[..., Any]


def zoo() -> dict[str, tuple[Build, list[tuple[Any, ...]]]]:
    """Operators as Relax lowers them: what to call, and on which shapes, with a dtype last unless float32."""
    return {
        "gelu": (op.nn.gelu, [(4, 100)]),
        "erf": (op.erf, [(5,)]),
        "power": (op.power, [(257,), (257,)]),
        "scalar": (op.add, [(), ()]),
        "where": (lambda a, b: op.where(op.greater(a, b), a, b), [(9, 9), (9, 9)]),
        "symbolic columns": (op.add, [(4, "n"), (4, "n")]),
        "float16": (op.nn.relu, [(9, 100, "float16")]),
        "cast": (lambda a: op.astype(a, "int32"), [(9, 9)]),
        "odd image": (op.nn.relu, [(1, 3, 67, 67)]),
        "layer_norm": (lambda a, g, b: op.nn.layer_norm(a, g, b, axes=[-1]), [(4, 33, 64), (64,), (64,)]),
        "rms_norm": (lambda a, g: op.nn.rms_norm(a, g, axes=[-1]), [("n", 33, 64), (64,)]),
        "group_norm": (
            lambda a, g, b: op.nn.group_norm(a, g, b, num_groups=4, channel_axis=1, axes=[2, 3]),
            [(2, 16, 5, 5), (16,), (16,)],
        ),
        "instance_norm": (
            lambda a, g, b: op.nn.instance_norm(a, g, b, channel_axis=1, axes=[2, 3]),
            [(2, 16, 5, 5), (16,), (16,)],
        ),
        "batch_norm": (
            lambda a, g, b, m, v: op.nn.batch_norm(a, g, b, m, v, axis=1),
            [(2, 16, 5, 5), (16,), (16,), (16,), (16,)],
        ),
        "argmax": (lambda a: op.argmax(a, axis=1), [(7, 1000)]),
        "variance": (lambda a: op.variance(a, axis=1), [(7, 33)]),
        "prod": (lambda a: op.prod(a), [(3, 4)]),
        "sum over symbolic": (lambda a: op.sum(a, axis=0), [("n", 60)]),
        "mean of a symbolic image": (lambda a: op.mean(a, axis=[2, 3]), [(1, 64, "n", "m")]),
        "batch_matmul": (op.matmul, [(3, 33, 65), (3, 65, 47)]),
        "symbolic inner": (op.matmul, [(4, "n"), ("n", 47)]),
        "dot": (op.matmul, [(65,), (65,)]),
        "attention": (op.nn.attention, [(1, 9, 4, 16)] * 3),
        "einsum": (lambda a, b: op.einsum([a, b], "ij,jk->ik"), [(9, 8), (8, 7)]),
        "conv1d": (lambda a, b: op.nn.conv1d(a, b, padding=1), [(1, 8, 19), (8, 8, 3)]),
        "conv3d": (lambda a, b: op.nn.conv3d(a, b, padding=1), [(1, 4, 5, 6, 7), (4, 4, 3, 3, 3)]),
        "conv2d": (lambda a, b: op.nn.conv2d(a, b, padding=1), [("n", 8, 9, 9), (8, 8, 3, 3)]),
        "conv2d_transpose": (
            lambda a, b: op.nn.conv2d_transpose(a, b, strides=2),
            [(1, 8, 9, 9), (8, 8, 3, 3)],
        ),
        "max_pool3d": (lambda a: op.nn.max_pool3d(a, (3, 3, 3)), [(1, 8, 9, 9, 9)]),
        "adaptive_avg_pool2d": (lambda a: op.nn.adaptive_avg_pool2d(a, (3, 3)), [(1, 8, 10, 10)]),
        "resize2d": (lambda a: op.image.resize2d(a, (18, 18)), [(1, 3, 9, 9)]),
        "grid_sample": (op.image.grid_sample, [(1, 2, 5, 5), (1, 4, 4, 2)]),
        "split": (lambda a: op.split(a, 3, axis=1), [(2, 24, 9, 9)]),
        "strided_slice": (lambda a: op.strided_slice(a, [1, 2], [0, 1], [9, 8], [2, 3]), [(4, 9, 9)]),
        "tile": (lambda a: op.tile(a, (2, 3)), [(9, 9)]),
        "flip": (lambda a: op.flip(a, 1), [(9, 9)]),
        "reflect pad": (lambda a: op.nn.pad(a, (0, 0, 1, 2), "reflect"), [(9, 9)]),
        "tril": (op.tril, [(9, 9)]),
        "zeros_like": (op.zeros_like, [(9, 90)]),
        "take": (lambda a, b: op.take(a, b, axis=0), [(100, 16), (7, "int64")]),
        "gather_elements": (lambda a, b: op.gather_elements(a, b, axis=0), [(5, 6), (5, 6, "int64")]),
        "gather_nd": (op.gather_nd, [(5, 6), (4, 2, "int64")]),
        "scatter_elements": (
            lambda a, b, c: op.scatter_elements(a, b, c, axis=0),
            [(5, 6), (2, 6, "int64"), (2, 6)],
        ),
        "scatter_nd": (op.scatter_nd, [(5, 6), (4, 1, "int64"), (4, 6)]),
        "bucketize": (op.bucketize, [(9,), (5,)]),
        "quantize": (
            lambda a, b, c: op.quantize(a, b, c, axis=1, out_dtype="int8"),
            [(1, 16, 5, 5), (16,), (16, "int8")],
        ),
        "dequantize": (
            lambda a, b, c: op.dequantize(a, b, c, axis=1),
            [(1, 16, 5, 5, "int8"), (16,), (16, "int8")],
        ),
        "nll_loss": (lambda a, b: op.nn.nll_loss(op.nn.log_softmax(a), b), [(4, 10), (4, "int64")]),
    }


@pytest.mark.parametrize("name", zoo())
def test_an_operator_of_relax_computes_what_it_does_without_a_schedule(name: str) -> None:
    build, arguments = zoo()[name]
    functions = legalized(build, arguments)
    assert functions
    for func in functions:
        scheduled = scheduled_by(LoopNest(), func, TARGET).mod["main"]
        assert kernel_bounds.out_of_bounds(scheduled, SIZES) == []
        plain, arranged = (run_function(each) for each in (func, scheduled))
        for expected, got in zip(plain, arranged, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def legalized(build: Build, arguments: list[tuple[Any, ...]]) -> list[tirx.PrimFunc]:
    symbols = {name: tirx.Var(name, "int64") for name in SIZES}
    variables = []
    for place, shape in enumerate(arguments):
        dtype = "float32"
        if shape and isinstance(shape[-1], str) and shape[-1] not in symbols:
            *shape, dtype = shape  # type: ignore[assignment]
        extents = [symbols.get(size, size) for size in shape]
        variables.append(relax.Var(f"in_{place}", relax.TensorType(extents, dtype)))
    builder = relax.BlockBuilder()
    with builder.function("main", variables):
        builder.emit_func_output(builder.emit(build(*variables)))
    module = relax.transform.LegalizeOps()(builder.get())
    return [func for _, func in module.functions_items() if isinstance(func, tirx.PrimFunc)]


def run_function(func: tirx.PrimFunc) -> list[Array]:
    """The values of all arguments after a call with small positive ones."""
    rng = np.random.default_rng(0)
    values: list[Any] = []
    for parameter in func.params:
        if isinstance(parameter.ty, tvm.ir.PrimType):
            values.append(SIZES[parameter.name])
            continue
        shape = [
            int(size) if isinstance(size, (int, tirx.IntImm)) else SIZES[size.name]
            for size in parameter.shape
        ]
        dtype = str(parameter.dtype)
        whole = "int" in dtype or dtype == "bool"
        array = rng.integers(0, 3, shape) if whole else rng.uniform(0.1, 2, shape)
        values.append(tvm.runtime.tensor(array.astype(dtype)))
    compile_function(func, TARGET)["main"](*values)
    return [value.numpy() for value in values if not isinstance(value, int)]
