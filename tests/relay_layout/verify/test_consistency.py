"""What is said of a module by itself: of layouts that do not fit its tensors, whatever it was made from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tvm
from tvm import relax

from relay_layout.compiler import convert
from relay_layout.errors import VerificationError
from relay_layout.frontend import load_model
from relay_layout.relay import transform
from relay_layout.rewrite.canonicalize import canonicalize
from relay_layout.verify import verify_module
from tests import layout_graphs
from tests.relax_modules import module_giving

op = relax.op


def blocked_convolution(**attributes: Any) -> tvm.IRModule:
    """A convolution in blocks, some of its attributes replaced after its type was inferred."""
    given = {"data_layout": "NCHW8c", "kernel_layout": "OIHW8i8o", "out_layout": "NCHW8c"}
    return renamed(((1, 2, 5, 5, 8), (4, 2, 3, 3, 8, 8)), op.nn.conv2d, given, attributes)


def plain_convolution(**attributes: Any) -> tvm.IRModule:
    """A convolution of NCHW by OIHW, likewise."""
    return renamed(((1, 4, 5, 5), (8, 4, 3, 3)), op.nn.conv2d, {}, attributes)


def pooling(**attributes: Any) -> tvm.IRModule:
    """A pooling of NCHW, likewise."""
    return renamed(((1, 4, 6, 6),), op.nn.max_pool2d, {"strides": (2, 2)}, attributes)


def renamed(
    shapes: tuple[tuple[int, ...], ...],
    function: Callable[..., Any],
    given: dict[str, Any],
    attributes: dict[str, Any],
) -> tvm.IRModule:
    """A call as a file may hold it: types beside attributes that say something else."""
    builder = relax.BlockBuilder()
    names = ("data", "kernel")
    parameters = [
        relax.Var(name, relax.TensorType(shape, "float32"))
        for name, shape in zip(names, shapes, strict=False)
    ]
    with builder.function("main", parameters):
        builder.emit_func_output(builder.emit(function(*parameters, **given)))
    call = builder.finalize()["main"].body.blocks[0].bindings[0].value
    information = type(call.attrs).__tvm_ffi_type_info__
    fields = {field.name: getattr(call.attrs, field.name) for field in information.fields}
    wrong = relax.Call(
        call.op, call.args, tvm.ir.make_node(information.type_key, **{**fields, **attributes}), call.ty_args
    )
    relax.expr._update_type(wrong, call.ty)
    typed = relax.Var("lv", call.ty)
    body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(typed, wrong)])], typed)
    return tvm.IRModule({"main": relax.Function(parameters, body, call.ty)})


def test_a_consistent_module_passes() -> None:
    verify_module(blocked_convolution())


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            {"data_layout": "NCHW"},
            "attribute 'data_layout' is provided as NCHW, expected a layout of 5 dimensions",
        ),
        (
            {"data_layout": "NCHW4c"},
            "attribute 'data_layout' is provided as NCHW4c: shape (1, 2, 5, 5, 8): dimension 4, '4c' of "
            "layout 'NCHW4c', is 8; it must be 4",
        ),
        (
            {"data_layout": "NC"},
            "attribute 'data_layout' is provided as NC, expected a layout of 5 dimensions",
        ),
        (
            {"groups": 2},
            "16 channels are provided by 'data_layout' NCHW8c, expected 32 by 'kernel_layout' OIHW8i8o with "
            "2 groups",
        ),
        (
            {"out_layout": "NCDH8c"},
            "attribute 'out_layout' is provided as NCDH8c, expected the axes of NCHW8c",
        ),
        (
            {"kernel_layout": "IOHW8i8o"},
            "16 channels are provided by 'data_layout' NCHW8c, expected 32 by 'kernel_layout' IOHW8i8o with "
            "1 groups",
        ),
    ],
)
def test_an_inconsistent_module_is_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(VerificationError) as raised:
        verify_module(blocked_convolution(**attributes))
    assert str(raised.value) == f"function 'main', binding 'lv' (nn.conv2d): {message}"


def test_random_graphs_are_consistent_before_and_after() -> None:
    for seed in range(60):
        module = layout_graphs.random_module(seed, 3 + seed % 9)
        verify_module(module)
        verify_module(layout_graphs.converted_to(module, layout_graphs.LAYOUTS[seed % 7]))


PLAIN = [
    (
        {"data_layout": "NHWC"},
        "5 channels are provided by 'data_layout' NHWC, expected 4 by 'kernel_layout' OIHW with 1 groups",
    ),
    (
        {"kernel_layout": "HWIO"},
        "4 channels are provided by 'data_layout' NCHW, expected 3 by 'kernel_layout' HWIO with 1 groups",
    ),
    (
        {"kernel_layout": "IOHW"},
        "4 channels are provided by 'data_layout' NCHW, expected 8 by 'kernel_layout' IOHW with 1 groups",
    ),
    (
        {"out_layout": "NHWC"},
        "3 channels are provided by 'out_layout' NHWC, expected 8 by 'kernel_layout' OIHW with 1 groups",
    ),
    (
        {"groups": 2},
        "4 channels are provided by 'data_layout' NCHW, expected 8 by 'kernel_layout' OIHW with 2 groups",
    ),
]


@pytest.mark.parametrize(("attributes", "message"), PLAIN)
def test_a_plain_convolution_is_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(VerificationError) as raised:
        verify_module(plain_convolution(**attributes))
    assert str(raised.value) == f"function 'main', binding 'lv' (nn.conv2d): {message}"


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            {"out_layout": "NHWC"},
            "an extent of 3 for C is provided by 'out_layout' NHWC, expected 4 by 'layout' NCHW",
        ),
        (
            {"layout": "CNHW"},
            "an extent of 1 for N is provided by 'out_layout' NCHW, expected 4 by 'layout' CNHW",
        ),
    ],
)
def test_pooling_that_does_not_keep_channels_is_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(VerificationError) as raised:
        verify_module(pooling(**{"out_layout": "NCHW", **attributes}))
    assert str(raised.value) == f"function 'main', binding 'lv' (nn.max_pool2d): {message}"


ENTRANCES: dict[str, Callable[[tvm.IRModule], Any]] = {
    "load_model": load_model,
    "convert": lambda module: convert(module, desired_layout="none"),
    "canonicalize": canonicalize,
    "a pass of Relay's": transform.FoldConstant(),
}


@pytest.mark.parametrize("name", ENTRANCES)
def test_whatever_comes_in_is_checked(name: str) -> None:
    data = relax.Var("data", relax.TensorType((1, 4, 5, 5), "float32"))
    kernel = relax.Var("kernel", relax.TensorType((8, 4, 3, 3), "float32"))
    # Type inference accepts it: it rounds 8 channels up to 9.
    module = module_giving(op.nn.conv2d(data, kernel, out_layout="NCHW3c"), data, kernel)
    with pytest.raises(VerificationError) as raised:
        ENTRANCES[name](module)
    assert str(raised.value) == (
        "function 'main', binding 'gv' (nn.conv2d): 9 channels are provided by 'out_layout' NCHW3c, expected "
        "8 by 'kernel_layout' OIHW with 1 groups"
    )


def test_a_module_that_is_checked_is_not_copied() -> None:
    module = plain_convolution()
    assert load_model(module) is module
