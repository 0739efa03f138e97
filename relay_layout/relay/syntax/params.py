"""Files of parameters: what ``relay.save_param_dict`` wrote, and the blob of a single tensor."""

from collections.abc import Mapping

import numpy as np

from relay_layout.errors import ModelError
from relay_layout.relay.syntax.source import shorten
from relay_layout.relay.syntax.tensor_blob import ByteReader, read_blob, write_blob

_MAGIC = 0xF7E58D4F05049CB7
_SMALLEST_NAME = 8


def read_params(data: bytes | bytearray | memoryview, name: str = "<params>") -> dict[str, np.ndarray]:
    """The tensors of a file of parameters, by name, in the order of the file.

    ``name`` is the file's name in messages. Raises ModelError when the bytes are no such file, or a
    truncated or damaged one; no more memory is taken than the bytes themselves need.
    """
    reader = ByteReader(data, name)
    if reader.unsigned("the header of a file of parameters") != _MAGIC:
        raise reader.error("expected a file written by relay.save_param_dict, found other data", 0)
    reader.unsigned("the header of a file of parameters")
    names = _read_names(reader)
    start = reader.offset
    count = reader.unsigned("the number of tensors")
    if count != len(names):
        raise reader.error(f"expected as many tensors as names: {len(names)}, found {count}", start)
    params = {parameter: read_blob(reader) for parameter in names}
    if reader.remaining:
        raise reader.error(f"expected the end of the file, found {reader.remaining} more bytes")
    return params


def _read_names(reader: ByteReader) -> list[str]:
    start = reader.offset
    count = reader.unsigned("the number of names")
    if count > reader.remaining // _SMALLEST_NAME:
        raise reader.error(f"expected {count} names, found {reader.remaining} bytes for them", start)
    names: dict[str, None] = {}
    for _ in range(count):
        start = reader.offset
        encoded = reader.take(reader.unsigned("the length of a name"), "the name of a parameter")
        try:
            parameter = bytes(encoded).decode()
        except UnicodeDecodeError:
            raise reader.error("expected the name of a parameter in UTF-8, found other data", start) from None
        if parameter in names:
            raise reader.error(f"parameter '{shorten(parameter)}' is there twice", start)
        names[parameter] = None
    return list(names)


def write_params(params: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a file of parameters, which :func:`read_params` and TVM's ``load_param_dict`` read.

    Raises ModelError for data types that Relay does not have.
    """
    chunks = [_unsigned(_MAGIC), _unsigned(0), _unsigned(len(params))]
    for name in params:
        encoded = name.encode()
        chunks += [_unsigned(len(encoded)), encoded]
    chunks.append(_unsigned(len(params)))
    for name, array in params.items():
        try:
            chunks.append(write_blob(array))
        except ModelError as error:
            raise ModelError(f"parameter '{shorten(name)}': {error}") from None
    return b"".join(chunks)


def read_tensor(data: bytes | bytearray | memoryview, name: str = "<tensor>") -> np.ndarray:
    """The tensor of a blob that holds nothing else.

    Raises ModelError when the bytes are no such blob, or a truncated or damaged one.
    """
    reader = ByteReader(data, name)
    array = read_blob(reader)
    if reader.remaining:
        raise reader.error(f"expected the end of the tensor, found {reader.remaining} more bytes")
    return array


def _unsigned(value: int) -> bytes:
    return value.to_bytes(8, "little")
