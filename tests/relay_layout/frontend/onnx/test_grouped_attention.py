"""Attention whose heads share keys, beside ONNX Runtime."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from onnx import helper, numpy_helper, parser
from tvm import relax

from relay_layout.frontend import from_onnx
from tests.onnx_reference import reference_session
from tests.onnx_refusals import refusal

RANDOM = np.random.default_rng(31)
HEADS, GROUPS, DEPTH = 4, 2, 16
NAMES = ("y", "keys", "values")
ANGLES = {name: RANDOM.standard_normal((20, DEPTH // 2)).astype("float32") for name in ("cosine", "sine")}
_OPERATOR = f"com.microsoft.GroupQueryAttention <num_heads={HEADS}, kv_num_heads={GROUPS}"
_FROM_MASK = """
    axis = Constant <value_ints=[1]> ()  one = Constant <value=int32 {1}> ()
    place = Constant <value_int=1> ()
    counts = ReduceSum <keepdims=0> (mask, axis)  last = Sub (counts, one)
    sizes = Shape (mask)  width = Gather (sizes, place)  total = Cast <to=6> (width)
"""


def _random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


def _inputs(batch: int, rows: int, past: int, *, packed: bool = False) -> dict[str, np.ndarray]:
    columns = {"q": HEADS + 2 * GROUPS} if packed else {"q": HEADS, "k": GROUPS, "v": GROUPS}
    data = {name: _random(batch, rows, count * DEPTH) for name, count in columns.items()}
    return data | {name: _random(batch, GROUPS, past, DEPTH) for name in ("pk", "pv")}


def _case(attributes: str, inputs: str, given: dict[str, np.ndarray], counts: list[int]) -> dict[str, Any]:
    """Of sequences with so many keys each."""
    turned = "do_rotary=1" in attributes
    return {
        "nodes": f"{', '.join(NAMES)} = {_OPERATOR}, {attributes}> ({inputs})",
        "inputs": {**given, "last": np.array(counts, "int32") - 1},
        "constants": {"total": np.array(max(counts), "int32"), **(ANGLES if turned else {})},
        "outputs": dict.fromkeys(NAMES, "float32"),
        "domains": {"com.microsoft": 1},
        "symbolic": False,
        "atol": 1e-5,
    }


CASES: dict[str, dict[str, Any]] = {
    "several_rows_side_by_side": _case(
        "do_rotary=1, rotary_interleaved=1, softcap=2.0",
        'q, "", "", pk, pv, last, total, cosine, sine, "", bias',
        _inputs(1, 3, 4, packed=True) | {"bias": _random(1, 1, 3, 7)},
        [7],
    ),
    "window_on_a_longer_buffer": _case(
        "scale=0.3, local_window_size=3", "q, k, v, pk, pv, last, total", _inputs(2, 1, 12), [7, 4]
    ),
    "part_of_no_key": _case("smooth_softmax=1", "q, k, v, pk, pv, last, total", _inputs(2, 1, 4), [5, 3]),
    "part_of_no_key_by_heads": _case(
        "local_window_size=3",
        'q, k, v, pk, pv, last, total, "", "", "", "", sink',
        _inputs(2, 1, 12) | {"sink": _random(HEADS)},
        [7, 4],
    ),
}
_GIVEN = _inputs(1, 3, 4)
_ATTENTION = f"{_OPERATOR}, softcap=2.0>"
CASES["of_bfloat16"] = {
    "nodes": " ".join(f"{name}_b = Cast <to=16> ({name})" for name in _GIVEN)
    + f" y_b, keys, values = {_ATTENTION} ({', '.join(f'{name}_b' for name in _GIVEN)}, last, total)"
    + " y = Cast <to=1> (y_b)",
    "oracle": f"y, keys, values = {_ATTENTION} ({', '.join(_GIVEN)}, last, total)",
    "inputs": _GIVEN,
    "constants": {"last": np.array([6], "int32"), "total": np.array(7, "int32")},
    "domains": {"com.microsoft": 1},
    "symbolic": False,
    "rtol": 0.05,
    "atol": 0.05,
}


def test_agrees_with_onnx_runtime(case_name: str, agree: Callable[[str], None]) -> None:
    agree(case_name)


def test_one_module_reads_first_and_next_rows() -> None:
    """As generators export it: the mask tells how many keys there are."""
    declared = (
        f"float[N,S,{HEADS * DEPTH}] q, float[N,S,{GROUPS * DEPTH}] k, float[N,S,{GROUPS * DEPTH}] v, "
        f"float[N,{GROUPS},P,{DEPTH}] pk, float[N,{GROUPS},P,{DEPTH}] pv, int32[N,T] mask"
    )
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g ({declared}) => '
        f"({', '.join(f'float[unknown] {name}' for name in NAMES)}) {{ {_FROM_MASK} "
        f"{', '.join(NAMES)} = {_OPERATOR}, do_rotary=1> (q, k, v, pk, pv, last, total, cosine, sine) }}"
    )
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in ANGLES.items())
    del model.graph.output[:]
    model.graph.output.extend(helper.make_tensor_value_info(name, 1, None) for name in NAMES)
    module = tvm.compile(from_onnx(model), tvm.target.Target({"kind": "llvm", "opt-level": 0}))
    machine = relax.VirtualMachine(module, tvm.cpu())
    session = reference_session(model.SerializeToString())
    for rows, past, counts in ((4, 0, [4, 2]), (1, 4, [5, 3]), (1, 9, [6])):
        given = _inputs(len(counts), rows, past)
        given["mask"] = (np.arange(max(counts)) < np.array(counts)[:, None]).astype("int32")
        results = machine["main"](*map(tvm.runtime.tensor, given.values()))
        for ours, theirs in zip(results, session.run(None, given), strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-5, atol=1e-5)


def test_keys_and_values_have_as_many_earlier_ones() -> None:
    """Extents without names are otherwise each their own."""
    declared = (
        f"float[1,4,{HEADS * DEPTH}] q, float[1,4,{GROUPS * DEPTH}] k, float[1,4,{GROUPS * DEPTH}] v, "
        f"float[1,{GROUPS},P,{DEPTH}] pk, float[1,{GROUPS},Q,{DEPTH}] pv"
    )
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g ({declared}) => (float[1,4,W] y) '
        f"<int32[1] last = {{7}}, int32 total = {{8}}> "
        f"{{ {', '.join(NAMES)} = {_OPERATOR}> (q, k, v, pk, pv, last, total) }}"
    )
    keys, values = from_onnx(model)["main"].params[3:]
    assert str(keys.ty.shape[2]) == str(values.ty.shape[2])


@pytest.mark.parametrize(
    ("attributes", "inputs", "message"),
    [
        (
            "num_heads=2, kv_num_heads=1, qk_output=1",
            "x, x, x, , , n, n",
            "has qk_output, which is not supported: export it without",
        ),
        ("num_heads=3, kv_num_heads=2", "x, x, x, , , n, n", "has 3 heads that share 2 heads of keys"),
        ("num_heads=3, kv_num_heads=3", "x, x, x, , , n, n", "attends in [1,2,32] with 3 heads that share 3"),
        (
            "num_heads=2, kv_num_heads=1",
            "x, x, x, , , n, n",
            "has [1,2,32] for its input 1 where [1,2,16] is due",
        ),
        (
            "num_heads=2, kv_num_heads=2",
            "x, x, x, , , n, m",
            "needs a constant for its input 6, not a tensor computed at run time: "
            "export the model with a number there, or fixed shapes",
        ),
        (
            "num_heads=2, kv_num_heads=2",
            "x, x, x, x, x, n, n",
            "has [1,2,32] for its input 3 where [1,2,0,16] is due",
        ),
    ],
)
def test_what_is_refused(attributes: str, inputs: str, message: str) -> None:
    found = refusal(
        "(float[1,2,32] x, int32[1] m) => (float[a,b,c] y) <int32[1] n = {1}>"
        f" {{ y = com.microsoft.GroupQueryAttention <{attributes}> ({inputs}) }}"
    )
    assert found == f"node 'y' (GroupQueryAttention) {message}"
