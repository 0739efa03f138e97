"""Networks of more elements than TVM counts."""

import pytest
import tvm
from tvm import relax

import relay_layout
from relay_layout.errors import ModelError
from relay_layout.lower.index_limits import index_limits
from tests.relax_modules import main_of


def module_of(batch: int) -> tvm.IRModule:
    image = relax.Var("image", relax.TensorType((batch, 32, 2, 2), "float32"))
    with main_of(image) as builder:
        mean = builder.emit(relax.op.mean(image, [2, 3]))
        builder.result = builder.emit(relax.op.reshape(mean, (batch * 32,)))
    return builder.finalize()


def test_more_elements_than_tvm_counts() -> None:
    with pytest.raises(ModelError) as raised:
        relay_layout.compile(module_of(2_000_000_000), target="x86-64-v3", threads=1)
    assert str(raised.value) == (
        "in these shapes an operator counts to 64000000000, which TVM's code for it cannot, beyond "
        "2147483647: give smaller inputs"
    )


def test_other_errors_are_left_alone() -> None:
    with pytest.raises(ValueError, match="something else"), index_limits():
        raise ValueError("something else")
