"""Constants that are only moved or cast become other constants."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout.ir import Constant, constant, constant_array
from relay_layout.rewrite.fold import fold_constants

ARRAY = np.arange(6, dtype="float32").reshape(1, 2, 3)
CASES = {
    "permute_dims": (lambda value: relax.op.permute_dims(value, [2, 0, 1]), ARRAY.transpose(2, 0, 1)),
    "permute_dims-reversed": (relax.op.permute_dims, ARRAY.transpose()),
    "reshape": (lambda value: relax.op.reshape(value, (3, 2)), ARRAY.reshape(3, 2)),
    "expand_dims": (lambda value: relax.op.expand_dims(value, [0, -1]), ARRAY.reshape(1, 1, 2, 3, 1)),
    "squeeze": (lambda value: relax.op.squeeze(value, [0]), ARRAY[0]),
    "flatten": (relax.op.flatten, ARRAY.reshape(-1)),
    "astype": (lambda value: relax.op.astype(value, "int8"), ARRAY.astype("int8")),
    "chain": (lambda value: relax.op.flatten(relax.op.permute_dims(value)), ARRAY.transpose().reshape(-1)),
}


def result_of(build: object) -> relax.Expr:
    """What main of a function without parameters gives once folded."""
    builder = relax.BlockBuilder()
    with builder.function("main", []):
        with builder.dataflow():
            output = builder.emit_output(build(constant(ARRAY)))  # type: ignore[operator]
        builder.emit_func_output(output)
    module = relax.transform.CanonicalizeBindings()(fold_constants(builder.finalize()))
    body = module["main"].body
    bound = {binding.var: binding.value for block in body.blocks for binding in block.bindings}
    return bound.get(body.body, body.body)


@pytest.mark.parametrize("name", CASES)
def test_moved_constants_are_constants(name: str) -> None:
    build, expected = CASES[name]
    result = result_of(build)
    assert isinstance(result, Constant)
    np.testing.assert_array_equal(constant_array(result), expected)
    assert constant_array(result).dtype == expected.dtype


def test_arithmetic_is_left() -> None:
    assert isinstance(result_of(lambda value: relax.op.add(value, value)), tvm.relax.Call)
