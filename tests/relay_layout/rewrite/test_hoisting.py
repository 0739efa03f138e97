"""Activations become epilogues of the convolutions behind the views they read, and change no number."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

import relay_layout
from relay_layout.ir import Emit, Expression
from relay_layout.rewrite.canonicalize import canonicalize
from tests.module_operators import canonical_operators
from tests.relax_modules import main_of


def network(rows: Callable[[Emit, relax.Var], Expression], *, bias: bool = True) -> tvm.IRModule:
    """What ``rows`` makes of the image 1x6x5x7 that a depthwise convolution computes."""
    random = np.random.default_rng(0)
    data = relax.Var("data", relax.TensorType((1, 6, 5, 7), "float32"))
    with main_of(data) as builder:
        weight = relax.const(random.standard_normal((6, 1, 3, 3)).astype("float32"))
        image = builder.emit(relax.op.nn.conv2d(data, weight, padding=1, groups=6))
        if bias:
            vector = random.standard_normal((1, 6, 1, 1)).astype("float32")
            image = builder.emit(relax.op.add(image, relax.const(vector)))
        builder.result = rows(builder.emit, image)
    return builder.finalize()


def as_rows(emit: Emit, image: relax.Var) -> relax.Var:
    """The image as rows of channels, 1x35x6."""
    return emit(relax.op.permute_dims(emit(relax.op.reshape(image, (1, 6, 35))), (0, 2, 1)))


@pytest.mark.parametrize("bias", [True, False])
def test_comes_before_all_views(bias: bool) -> None:
    module = network(lambda emit, image: relax.op.nn.gelu(as_rows(emit, image)), bias=bias)
    epilogue = ["add"] if bias else []
    assert canonical_operators(module) == ["nn.conv2d", *epilogue, "nn.gelu", "reshape", "permute_dims"]


def test_several_keep_their_order() -> None:
    found = canonical_operators(
        network(lambda emit, image: relax.op.tanh(emit(relax.op.nn.relu(as_rows(emit, image)))), bias=False)
    )
    assert found == ["nn.conv2d", "nn.relu", "tanh", "reshape", "permute_dims"]


def test_stays_where_views_are_read_elsewhere() -> None:
    def twice(emit: Emit, image: relax.Var) -> Expression:
        rows = as_rows(emit, image)
        return relax.op.add(emit(relax.op.nn.gelu(rows)), rows)

    found = canonical_operators(network(twice, bias=False))
    assert found == ["nn.conv2d", "reshape", "permute_dims", "nn.gelu", "add"]


def test_stays_where_the_image_is_read_elsewhere() -> None:
    def both(emit: Emit, image: relax.Var) -> Expression:
        gelu = emit(relax.op.nn.gelu(emit(relax.op.reshape(image, (1, 6, 35)))))
        return relax.op.matmul(
            gelu, emit(relax.op.permute_dims(emit(relax.op.reshape(image, (1, 6, 35))), (0, 2, 1)))
        )

    found = canonical_operators(network(both, bias=False))
    assert found.index("nn.gelu") > found.index("reshape")


def test_stays_behind_what_is_no_convolution() -> None:
    def pooled(emit: Emit, image: relax.Var) -> Expression:
        return relax.op.nn.gelu(as_rows(emit, emit(relax.op.nn.max_pool2d(image, (3, 3), padding=1))))

    found = canonical_operators(network(pooled, bias=False))
    assert found == ["nn.conv2d", "nn.max_pool2d", "reshape", "permute_dims", "nn.gelu"]


def test_stays_where_the_dtype_changes() -> None:
    def cast(emit: Emit, image: relax.Var) -> Expression:
        return relax.op.astype(as_rows(emit, image), "float64")

    found = canonical_operators(network(cast, bias=False))
    assert found == ["nn.conv2d", "reshape", "permute_dims", "astype"]


def test_is_named_after_what_it_is_computed_of() -> None:
    module = canonicalize(
        network(lambda emit, image: emit(relax.op.nn.gelu(as_rows(emit, image))), bias=False)
    )
    names = [binding.var.name for binding in module["main"].body.blocks[0].bindings]
    assert names[1] == f"{names[0]}_gelu"


@pytest.mark.parametrize("layout", ["auto", "NHWC", "NCHW"])
def test_computes_the_same(layout: str, tmp_path: Path) -> None:
    def rows(emit: Emit, image: relax.Var) -> Expression:
        return relax.op.nn.silu(as_rows(emit, image))

    data = np.random.default_rng(1).standard_normal((1, 6, 5, 7)).astype("float32")
    plain = network(as_rows)
    relay_layout.compile(network(rows), desired_layout=layout).save(tmp_path / "rows.rla")
    before = tvm.runtime.vm.VirtualMachine(tvm.compile(plain, "llvm"), tvm.cpu())["main"](
        tvm.runtime.tensor(data)
    )
    expected = before.numpy() / (1 + np.exp(-before.numpy()))
    (result,) = relay_layout.load(tmp_path / "rows.rla").run({"data": data}).values()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
