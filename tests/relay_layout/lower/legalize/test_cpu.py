"""Operators that TVM 0.27 does not lower, and constant kernels on their way into a function."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout.ir import Constant, constant_array
from relay_layout.lower.legalize.cpu import legalization_map
from relay_layout.targets import CpuTarget, resolve_target
from tests.layout_graphs import execute
from tests.legalizing import legalized

op = relax.op
RNG = np.random.default_rng(0)


def module_of(emit: Callable[[relax.Var], relax.Expr], *shape: int | relax.Expr) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType(shape, "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            result = builder.emit_output(relax.Tuple([builder.emit(emit(data))]))
        builder.emit_func_output(result)
    return builder.finalize()


@pytest.mark.parametrize("shape", [(2, 18, 4, 5), (9, 2, 3), (2, 3, 9, 2, 1)])
@pytest.mark.parametrize("symbolic", [False, True])
def test_pixel_shuffle(shape: tuple[int, ...], symbolic: bool) -> None:
    *outer, channels, rows, columns = shape
    image = RNG.uniform(-1, 1, shape).astype("float32")
    extents: list[int | relax.Expr] = [*shape]
    if symbolic:
        extents[-2] = tvm.tirx.Var("rows", "int64")
    (have,) = execute(module_of(lambda x: op.nn.pixel_shuffle(x, 3), *extents), image)
    parts = image.reshape(*outer, channels // 9, 3, 3, rows, columns)
    first = len(outer)
    order = [*range(first + 1), first + 3, first + 1, first + 4, first + 2]
    np.testing.assert_array_equal(have, parts.transpose(order).reshape(have.shape))


def test_multiply_add() -> None:
    image = RNG.uniform(-1, 1, (2, 3)).astype("float32")
    factor, addend = (RNG.uniform(-1, 1, (2, 3)).astype("float32") for _ in range(2))
    module = module_of(lambda x: op.ewise_fma(x, relax.const(factor), relax.const(addend)), 2, 3)
    (have,) = execute(module, image)
    np.testing.assert_allclose(have, image * factor + addend, 1e-6, 1e-6)


@pytest.mark.parametrize("axes", [[0, 1, 2], [1, 2], [2]])
def test_root_mean_squares_over_any_axes(axes: list[int]) -> None:
    """TVM's own loops fail where nothing is left beside the sum."""
    image = RNG.uniform(-1, 1, (2, 3, 5)).astype("float32")
    factor = RNG.uniform(-1, 1, image.shape[axes[0] :]).astype("float32")
    module = module_of(lambda x: op.nn.rms_norm(x, relax.const(factor), axes=axes, epsilon=0.1), *image.shape)
    (have,) = execute(module, image)
    mean = np.square(image).mean(tuple(axes), keepdims=True)
    np.testing.assert_allclose(have, image / np.sqrt(mean + 0.1) * factor, 1e-5, 1e-6)


def weight(*shape: int) -> relax.Expr:
    return relax.const(np.arange(np.prod(shape), dtype="float32").reshape(shape))


LAST = {"data_layout": "NHWC", "kernel_layout": "IOHW"}


def test_a_constant_kernel_is_stored_as_its_loops_read_it() -> None:
    module = module_of(lambda x: op.nn.conv2d_transpose(x, weight(3, 4, 2, 2), **LAST), 1, 4, 4, 3)
    lowered = legalized(module)
    call = lowered["main"].body.blocks[0].bindings[0].value
    (kernel,) = (argument for argument in call.args[1].fields if isinstance(argument, Constant))
    expected = np.arange(48, dtype="float32").reshape(3, 4, 2, 2).transpose(2, 3, 0, 1)
    np.testing.assert_array_equal(constant_array(kernel), expected)


@pytest.mark.parametrize("mode", ["fast", "clip"])
def test_indices_from_outside_do_not_read_other_memory(mode: str, capfd: pytest.CaptureFixture[str]) -> None:
    """TVM reads beyond the tensor where it is told to be fast, and warns of it once for each operator."""
    image = RNG.uniform(-1, 1, (5, 3)).astype("float32")
    places = np.array([0, 4, 99, -7])
    module = module_of(lambda x: op.take(x, relax.const(places), 0, mode=mode), 5, 3)
    np.testing.assert_array_equal(execute(module, image)[0], image.take(places, 0, mode="clip"))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("cpu", "precision", "rows", "words"),
    [
        ("znver5", "bf16", 8, True),
        ("znver5", "bf16", 7, False),
        ("znver5", "fp32", 8, False),
        # A multiply-add of pairs takes as long there as two of floats.
        ("cooperlake", "bf16", 8, False),
    ],
)
def test_products_of_activations_are_of_pairs_where_that_is_faster(
    cpu: str, precision: Any, rows: int, words: bool
) -> None:
    target = resolve_target(cpu, precision=precision)
    assert isinstance(target, CpuTarget)
    module = module_of(lambda x: op.matmul(x, op.permute_dims(x, [0, 2, 1])), 3, rows, 5)
    with target.tvm_target:
        lowered = relax.transform.LegalizeOps(legalization_map(target))(module)
    assert ("topi_ext.dot" in lowered.script()) == words
