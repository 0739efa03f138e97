"""Each elementwise reader of a cast to a wider dtype gets one of its own."""

from typing import Any

import pytest
from pass_harness import assert_same, function
from tvm import relax

from relay_layout.relay import transform
from tests.module_operators import operators

op = relax.op


def two_readers(dtype: str, wider: str) -> Any:
    def build(x: Any) -> Any:
        builder = relax.BlockBuilder.current()
        narrow = builder.emit(op.astype(x, dtype))
        wide = builder.emit(op.astype(narrow, wider))
        left, right = builder.emit(op.nn.relu(wide)), builder.emit(op.negative(wide))
        most = builder.emit(op.max(wide, [1], keepdims=True))
        return op.astype(builder.emit(op.add(builder.emit(op.subtract(left, right)), most)), "float32")

    return build


@pytest.mark.parametrize(("dtype", "wider", "casts"), [("int16", "int32", 4), ("int32", "int16", 3)])
def test_casts(dtype: str, wider: str, casts: int) -> None:
    """To narrower ones, and of what else reads them, stay as they are."""
    before = function(two_readers(dtype, wider), (2, 3))
    after = transform.CanonicalizeCast()(before)
    assert operators(after).count("astype") == casts
    assert_same(before, after)
