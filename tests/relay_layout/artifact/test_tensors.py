"""Inputs against what an artifact says of them."""

import numpy as np
import pytest
from artifact_harness import INPUT, Array

from relay_layout.artifact import TensorSpec, check_inputs
from relay_layout.errors import InputError


def refused(spec: TensorSpec, array: object, **options: str) -> str:
    with pytest.raises(InputError) as caught:
        spec.check(array, **options)
    return str(caught.value)


def test_spec_check_messages() -> None:
    INPUT.check(np.zeros((1, 3, 224, 224), "float32"))
    head = "input 'input': expected float32 [1, 3, 224, 224], got "
    assert refused(INPUT, np.zeros((1, 3, 224, 224))) == (
        head + "float64 [1, 3, 224, 224]; convert with .astype('float32')"
    )
    assert refused(INPUT, np.zeros((1, 224, 224, 3), "float32")) == (
        head + "float32 [1, 224, 224, 3]; convert with .transpose(0, 3, 1, 2)"
    )
    assert refused(INPUT, np.zeros((1, 224, 224, 3), "uint8")) == (
        head + "uint8 [1, 224, 224, 3]; convert with .transpose(0, 3, 1, 2).astype('float32')"
    )
    assert refused(INPUT, np.zeros((3, 224, 224), "float32")) == (
        head + "float32 [3, 224, 224]; convert with [None]"
    )
    assert refused(INPUT, np.zeros((224, 224, 3), "uint8")) == (
        head + "uint8 [224, 224, 3]; convert with [None].transpose(0, 3, 1, 2).astype('float32')"
    )
    assert refused(INPUT, np.zeros((3, 224, 225), "float32")) == head + "float32 [3, 224, 225]"
    assert refused(INPUT, np.zeros((1, 3, 224, 225), "float32")) == head + "float32 [1, 3, 224, 225]"
    assert refused(INPUT, [1.0]) == head + "list; convert with numpy.asarray(x, 'float32')"
    assert refused(INPUT, np.zeros((1, 3, 224, 224), "complex64")) == head + "complex64 [1, 3, 224, 224]"
    assert refused(TensorSpec("y", (), "int32"), np.zeros(1, "int32"), role="output") == (
        "output 'y': expected int32 [], got int32 [1]"
    )
    symbolic = TensorSpec("x", (1, 3, "h", "w"), "float32")
    assert refused(symbolic, np.zeros((1, 5, 3, 3), "float32")).endswith("got float32 [1, 5, 3, 3]")


@pytest.mark.parametrize("shape", [(1, 3, 4, 5), (3, 4, 5), (4, 5, 3)])
def test_suggested_conversions_work(shape: tuple[int, ...]) -> None:
    nhwc = TensorSpec("x", (1, 4, 5, 3), "float32", "NHWC")
    array = np.zeros(shape)
    suggestion = refused(nhwc, array).split("convert with ")[1]
    nhwc.check(eval(f"array{suggestion}"))


def test_check_inputs_orders_and_copies_only_as_needed() -> None:
    specs = [
        TensorSpec("a", (2, 3), "float32"),
        TensorSpec("b", (), "int32"),
        TensorSpec("c", (0, 4), "bool"),
    ]
    fine = np.ones((2, 3), "float32")
    given = {"c": np.zeros((0, 4), bool), "b": np.array(7, ">i4"), "a": fine}
    result = check_inputs(specs, given)
    assert list(result) == ["a", "b", "c"]
    assert result["a"] is fine
    assert result["b"].shape == () and result["b"] == 7 and result["b"].dtype.isnative
    strided = np.arange(6, dtype="float32").reshape(3, 2).T
    result = check_inputs(specs, {**given, "a": strided})
    assert result["a"].flags.c_contiguous
    np.testing.assert_array_equal(result["a"], strided)
    assert check_inputs([], {}) == {}


def test_check_inputs_messages() -> None:
    specs = [TensorSpec("ids", ("n", 8), "int32"), TensorSpec("mask", ("n",), "bool")]
    ids, mask = np.zeros((2, 8), "int32"), np.zeros(2, bool)
    assert list(check_inputs(specs, {"mask": mask, "ids": ids})) == ["ids", "mask"]
    taken = "the model takes 'ids' (int32 [n, 8]), 'mask' (bool [n])"
    cases: list[tuple[dict[str, Array], str]] = [
        ({"ids": ids}, f"missing input 'mask'; {taken}"),
        ({}, f"missing inputs 'ids', 'mask'; {taken}"),
        ({"ids": ids, "mask": mask, "x": ids}, f"unexpected input 'x'; {taken}"),
        ({"ids": ids, "x": ids}, f"missing input 'mask' and unexpected input 'x'; {taken}"),
        (
            {"ids": ids, "mask": np.zeros(3, bool)},
            "input 'mask': dimension 0 ('n') is 3, but input 'ids' has n = 2",
        ),
        (
            {"ids": ids, "mask": np.zeros(1, bool)},
            "input 'mask': dimension 0 ('n') is 1, but input 'ids' has n = 2; to broadcast the 1, "
            "compile the model for these sizes (--input-shape)",
        ),
    ]
    for arrays, message in cases:
        with pytest.raises(InputError) as caught:
            check_inputs(specs, arrays)
        assert str(caught.value) == message
    with pytest.raises(InputError, match="the model takes no inputs"):
        check_inputs([], {"x": ids})


def test_one_symbol_twice_in_one_shape() -> None:
    square = TensorSpec("x", ("n", "n"), "int8")
    check_inputs([square], {"x": np.zeros((3, 3), "int8")})
    with pytest.raises(InputError, match="dimension 1"):
        check_inputs([square], {"x": np.zeros((3, 4), "int8")})
