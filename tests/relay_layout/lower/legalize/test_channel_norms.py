"""Instance and group norm as one loop over rows, or as arithmetic, beside numpy in float64."""

from typing import Any

import numpy as np
import pytest
from tvm import IRModule, relax, tirx

from relay_layout.lower.legalize.channel_norms import LONGEST_ROW
from tests.layout_graphs import execute
from tests.legalizing import legalized
from tests.relax_modules import main_of

SHAPE = (2, 6, 5, 7)


def module_of(
    shape: tuple[Any, ...] = SHAPE, dtype: str = "float32", channel: int = 1, **options: Any
) -> IRModule:
    x = relax.Var("x", relax.TensorType(shape, dtype))
    axes = [axis for axis in range(1, len(shape)) if axis != channel]
    gamma, beta = (relax.const(np.arange(shape[channel]) + first, dtype) for first in (1, 2))
    with main_of(x) as builder:
        call = relax.op.nn.instance_norm(x, gamma, beta, channel_axis=channel, axes=axes, **options)
        builder.result = relax.Tuple([builder.emit(call)])
    return builder.finalize()


def kernels(module: IRModule) -> list[str]:
    return [
        str(name.name_hint)
        for name, one in legalized(module).functions_items()
        if isinstance(one, tirx.PrimFunc)
    ]


def test_rows_are_one_loop() -> None:
    assert kernels(module_of()) == ["instance_norm"]


@pytest.mark.parametrize(
    "module",
    [
        module_of((1, 7, 5, 7)),
        module_of((2, 6, 3, 5)),
        module_of((1, 8, 1, LONGEST_ROW + 1)),
        module_of((tirx.Var("n", "int64"), 6, 5, 7)),
        module_of((2, 5, 7, 6), channel=3),
        module_of(dtype="float16"),
    ],
    ids=["few rows", "short rows", "long rows", "any batch", "channels last", "halves"],
)
def test_others_are_arithmetic(module: IRModule) -> None:
    assert "instance_norm" not in kernels(module)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("channel", [1, 3])
def test_numbers(channel: int, center: bool, scale: bool) -> None:
    data = np.random.default_rng(0).standard_normal(SHAPE, np.float32)
    given = data if channel == 1 else data.transpose(0, 2, 3, 1)
    module = module_of(given.shape, channel=channel, center=center, scale=scale)
    (found,) = execute(module, np.ascontiguousarray(given))
    exact = data.astype("float64")
    exact -= exact.mean((2, 3), keepdims=True)
    exact /= np.sqrt((exact**2).mean((2, 3), keepdims=True) + 1e-5)
    if scale:
        exact *= np.arange(6).reshape(6, 1, 1) + 1
    if center:
        exact += np.arange(6).reshape(6, 1, 1) + 2
    wanted = exact if channel == 1 else exact.transpose(0, 2, 3, 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
