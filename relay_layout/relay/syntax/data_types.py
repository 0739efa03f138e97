"""The names of Relay's data types, and how tensors of them are stored."""

import ml_dtypes
import numpy as np

NUMPY_DTYPES: dict[str, np.dtype] = {
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    **{
        name: np.dtype(name)
        for name in (
            "bool",
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "float16",
            "float32",
            "float64",
        )
    },
}
"""The data types that tensors with values may have."""

NAMES = frozenset(NUMPY_DTYPES) | {"int4", "uint4"}
"""The data types that types may name; numpy has no arrays of some of them."""

_INTEGER, _UNSIGNED, _FLOAT, _BFLOAT, _BOOLEAN = 0, 1, 2, 4, 6

_NAMES_BY_CODE = {
    **{(_INTEGER, bits): f"int{bits}" for bits in (4, 8, 16, 32, 64)},
    **{(_UNSIGNED, bits): f"uint{bits}" for bits in (4, 8, 16, 32, 64)},
    **{(_FLOAT, bits): f"float{bits}" for bits in (16, 32, 64)},
    (_BFLOAT, 16): "bfloat16",
    # Relay's bool is an unsigned integer of one bit; DLPack has had a code of its own for it since.
    (_UNSIGNED, 1): "bool",
    (_BOOLEAN, 8): "bool",
}

CODES: dict[str, tuple[int, int]] = {
    **{name: code for code, name in _NAMES_BY_CODE.items() if name != "bool"},
    "bool": (_UNSIGNED, 1),
}
"""The type code and the number of bits that a stored tensor names its data type by."""


def name_of_code(code: int, bits: int) -> str | None:
    """The name of a stored data type, or None when there is no such type."""
    return _NAMES_BY_CODE.get((code, bits))


def listed() -> str:
    """The names of all data types, for messages."""
    return ", ".join(sorted(NAMES))
