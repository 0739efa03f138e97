"""Vectors of one byte in device functions."""

import pytest
import tvm
from tvm import tirx

from topi_ext.cuda.codegen.byte_vectors import pack_bytes


@pytest.mark.parametrize(
    ("dtype", "value", "lanes", "expected"),
    [
        ("int8", 3, 16, f'T.reinterpret("int8x16", T.Broadcast({0x03030303}, 4))'),
        ("int8", -2, 8, f'T.reinterpret("int8x8", T.Broadcast({0xFEFEFEFE - (1 << 32)}, 2))'),
        ("uint8", 200, 16, f'T.reinterpret("uint8x16", T.Broadcast({0xC8C8C8C8 - (1 << 32)}, 4))'),
        ("int8", 3, 4, "T.Broadcast(T.int8(3), 4)"),
        ("int32", 3, 8, "T.Broadcast(3, 8)"),
    ],
)
def test_repeated_bytes_are_repeated_words(dtype: str, value: int, lanes: int, expected: str) -> None:
    """Four lanes are one word, which TVM's code generation packs itself."""
    repeated = tirx.Broadcast(tirx.const(value, dtype), lanes)
    func = tirx.PrimFunc([], tirx.Evaluate(repeated)).with_attr("global_symbol", "main")
    assert expected in pack_bytes()(tvm.IRModule({"main": func}))["main"].script()
