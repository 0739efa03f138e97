"""What TVM's virtual machine raises."""

import pytest

from relay_layout.runtime.virtual_machine import memory_errors


def test_an_allocator_that_gets_no_memory() -> None:
    with pytest.raises(MemoryError) as raised, memory_errors():
        raise RuntimeError("std::bad_alloc")
    assert str(raised.value) == (
        "the network's intermediate results and outputs need more than there is; give smaller inputs"
    )


def test_other_errors_are_left_alone() -> None:
    with pytest.raises(RuntimeError, match="shape"), memory_errors():
        raise RuntimeError("shape mismatch")
