"""Calls of constants become constants, and what TVM cannot lower beside them is left alone."""

from collections.abc import Callable

import numpy as np
from tvm import relax

from relay_layout.frontend.folding import fold_leftovers
from relay_layout.ir import bindings_of, constant_array, operator_name

op = relax.op
RNG = np.random.default_rng(0)


def folded(build: Callable[[relax.BlockBuilder, relax.Var], relax.Expr], *shape: int) -> list[relax.Call]:
    """The calls of "main" once folded; ``build`` emits into a builder and gives the result."""
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType(shape, "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            result = builder.emit_output(build(builder, data))
        builder.emit_func_output(result)
    bindings = bindings_of(fold_leftovers(builder.finalize())["main"])
    return [binding.value for binding in bindings if isinstance(binding.value, relax.Call)]


def test_calls_that_read_each_other() -> None:
    image, kernel = RNG.random((1, 2, 4, 4), "float32"), RNG.random((3, 2, 1, 1), "float32")

    def build(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        found = builder.emit(op.nn.conv2d(relax.const(image), relax.const(kernel)))
        found = builder.emit(op.nn.relu(builder.emit(op.permute_dims(found, [0, 2, 3, 1]))))
        return op.add(data, found)

    (added,) = folded(build, 1, 4, 4, 3)
    want = np.einsum("nchw,ocij->nhwo", image, kernel)
    np.testing.assert_allclose(constant_array(added.args[1]), want, 1e-5)


def test_a_call_that_tvm_cannot_lower_stays() -> None:
    """TVM divides by the columns less one."""

    def build(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        mode = "align_corners"
        resized = op.image.resize2d(data, (8, 1), method="linear", coordinate_transformation_mode=mode)
        found = builder.emit(op.add(relax.const(np.ones(1, "float32")), relax.const(np.ones(1, "float32"))))
        return op.add(builder.emit(resized), found)

    resized, added = folded(build, 1, 2, 4, 1)
    assert operator_name(resized) == "image.resize2d"
    np.testing.assert_array_equal(constant_array(added.args[1]), [2.0])
