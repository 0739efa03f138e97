"""Relax modules of other origin, printed as Relay text."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from relay_harness import execute
from tvm import relax, tirx

from relay_layout.errors import ModelError
from relay_layout.relay.exporting.module import to_tree
from relay_layout.relay.importing import from_tree
from relay_layout.relay.syntax import print_text, read_text

X = np.arange(1.0, 25.0, dtype="float32").reshape(2, 3, 4)


def module_of(make: Callable[[Any], Any]) -> Any:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(X.shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(make(x))
        builder.emit_func_output(output)
    return builder.get()


FORMS: dict[str, Callable[[Any], Any]] = {
    "reshape(%x, newshape=[24])": relax.op.flatten,
    "multiply(%x, %x)": relax.op.square,
    "reshape(%x, newshape=[1, 2, 3, 1, 4])": lambda x: relax.op.expand_dims(x, [0, 3]),
    "expand_dims(%x, axis=3, num_newaxis=2)": lambda x: relax.op.expand_dims(x, [-1, -2]),
    "split(%x, indices_or_sections=[2], axis=1)": lambda x: relax.op.split(x, 2, 1),
    "clip(%x, a_min=2f, a_max=6f)": lambda x: relax.op.clip(x, 2, 6),
    "take(%0, 3i64, axis=0": lambda x: relax.op.take(
        relax.op.reshape(x, (24,)), relax.const(3, "int64"), None, "clip"
    ),
    "strided_slice(%x, begin=[-2], end=[3], strides=[1], axes=[1])": lambda x: relax.op.strided_slice(
        x, [1], [-2], [3]
    ),
    "sum(%x, axis=[-1], keepdims=True)": lambda x: relax.op.sum(x, -1, True),
    'src_layout="ABC", dst_layout="ABC2c"': lambda x: relax.op.layout_transform(
        x, lambda i, j, k: (i, j, k // 2, k % 2)
    ),
    'dtype="float64"': lambda x: relax.op.astype(x, "float64"),
    "trilu(%x, -1)": lambda x: relax.op.triu(x, -1),
}


@pytest.mark.parametrize("text", FORMS)
def test_forms_that_relay_writes_otherwise(text: str) -> None:
    module = module_of(FORMS[text])
    printed = print_text(to_tree(module))
    assert text in printed
    again = from_tree(read_text(printed, "printed"), name="printed")
    for result, want in zip(execute(again, [X]), execute(module, [X]), strict=True):
        np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: relax.op.round(x),
        lambda x: relax.op.argmax(x, 1),
        lambda x: relax.op.take(x, relax.const(0, "int64"), 0, "nan"),
        lambda x: relax.op.layout_transform(
            x, tirx.IndexMap.from_func(lambda i, j, k: (i + j, j, k), index_dtype="int64")
        ),
    ],
    ids=["halves to even", "int64 indices", "nan outside", "no layout"],
)
def test_what_relay_lacks_is_refused(make: Callable[[Any], Any]) -> None:
    with pytest.raises(ModelError, match="has no form in Relay"):
        to_tree(module_of(make))
