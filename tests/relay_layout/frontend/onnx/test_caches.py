"""Buffers that new keys and values are written into, beside ONNX Runtime."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relay_layout.errors import InputError
from tests.onnx_refusals import refusal
from tests.relay_layout.frontend.onnx.test_counted import check, model_of

RANDOM = np.random.default_rng(17)


def _written(attributes: str, buffer: tuple[int, ...], new: tuple[int, ...], starts: Any) -> dict[str, Any]:
    shapes = {"b": buffer, "n": new}
    inputs = {name: RANDOM.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
    if starts is not None:
        inputs["s"] = np.array(starts)
    return {
        "nodes": f"y = TensorScatter <{attributes}> ({', '.join(inputs)})",
        "inputs": inputs,
        "opset": 24,
    }


CASES: dict[str, dict[str, Any]] = {
    "keys": _written('mode="linear"', (2, 3, 7, 4), (2, 3, 2, 4), [1, 5]),
    "around_the_end": _written('mode="circular"', (2, 3, 7, 4), (2, 3, 3, 4), [5, 2]),
    "rows": _written("axis=1", (3, 6, 4), (3, 1, 4), [0, 5, 3]),
    "from_the_begin": _written("axis=-1", (2, 3, 6), (2, 3, 6), None),
}


def test_agrees_with_onnx_runtime(case_name: str, agree: Callable[[str], None]) -> None:
    agree(case_name)


def test_buffers_of_open_sizes_that_have_a_name_each(tmp_path: Path) -> None:
    model = model_of(
        "y = TensorScatter (b, n, s)",
        "float[N,3,L,4] b, float[M,3,S,4] n, int64[K] s",
        "float[N,3,L,4] y",
        opset=24,
    )
    feeds = [
        {
            "b": RANDOM.standard_normal((count, 3, length, 4)).astype("float32"),
            "n": RANDOM.standard_normal((count, 3, new, 4)).astype("float32"),
            "s": RANDOM.integers(0, length - new, count),
        }
        for count, length, new in ((2, 7, 2), (3, 9, 4))
    ]
    session = check(model, feeds, tmp_path)
    with pytest.raises(InputError) as error:
        session.run({**feeds[0], "s": np.zeros(3, "int64")})
    assert str(error.value) == "input 's': dimension 0 ('N') is 3, but input 'b' has N = 2"


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("<axis=0> (b, n, s)", "writes [2,3,2,4] into [2,3,7,4] along axis 0"),
        ("<axis=1> (b, n, s)", "writes [2,3,2,4] into [2,3,7,4] along axis 1"),
        ('<mode="other"> (b, n, s)', "has the mode 'other', which is not supported; linear and circular are"),
    ],
)
def test_what_is_refused(node: str, message: str) -> None:
    inputs = "(float[2,3,7,4] b, float[2,3,2,4] n, int64[2] s)"
    found = refusal(f"{inputs} => (float[a,b,c,d] y) {{ y = TensorScatter {node} }}", 24)
    assert found == f"node 'y' (TensorScatter) {message}"
