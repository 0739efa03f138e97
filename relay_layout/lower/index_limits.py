"""Tensors of more elements than TVM counts."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from relay_layout.errors import ModelError

_BEYOND = re.compile(r"Literal value (\d+) exceeds range of int32")
"""What TVM says where it multiplies extents in int32, as it does of some operators, reshapes among them."""


@contextmanager
def index_limits() -> Iterator[None]:
    """Code that lowers a network. ModelError where an operator has more elements than TVM counts of it."""
    try:
        yield
    except ValueError as error:
        found = _BEYOND.search(str(error))
        if found is None:
            raise
        raise ModelError(
            f"in these shapes an operator counts to {found[1]}, which TVM's code for it cannot, beyond "
            "2147483647: give smaller inputs"
        ) from None
