"""How many threads kernels use."""

import tvm

from relay_layout.runtime.threads import set_own_threads


def test_a_library_without_threads_has_those_of_tvm() -> None:
    x = tvm.te.placeholder((4,), name="x")
    kernel = tvm.te.create_prim_func([x, tvm.te.compute((4,), lambda i: x[i] + 1, name="y")])
    assert not set_own_threads(tvm.compile(kernel, target="llvm").mod, 2)
