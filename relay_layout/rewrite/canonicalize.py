"""Inference form: every operator as inference needs it, everything constant computed once.

Weights are changed with numpy, without compiling anything.
"""

from collections.abc import Callable, Collection

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm_ffi import structural_equal

from relay_layout.bodies import each_alone
from relay_layout.dim_order_marker import without_markers
from relay_layout.graph.uses import count_uses
from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    operator_name,
    rebuild_functions,
    shape_of,
    simplify_bindings,
    with_attributes,
)
from relay_layout.quantization import to_integers
from relay_layout.relay.operators import decompose
from relay_layout.rewrite.batch_norm import without_batch_norm
from relay_layout.rewrite.bindings import Bindings
from relay_layout.rewrite.contraction import contractions_as_products
from relay_layout.rewrite.fold import fold_constants
from relay_layout.rewrite.hoisting import hoisted
from relay_layout.rewrite.narrowing import ROUNDED_POOLINGS, narrowed, narrowed_pooling
from relay_layout.rewrite.recognition import recognise_operators
from relay_layout.rewrite.widening import widen
from relay_layout.targets.convolutions import CONVOLUTION_AXES
from relay_layout.verify import verify_module


def canonicalize(
    module: tvm.IRModule, *, keep_carried: bool = False, widened: Collection[str] = ()
) -> tvm.IRModule:
    """The module as layout conversion likes it: no batch norm, no dropout, nothing unused.

    Tensors of the dtypes ``widened`` become float32, but for inputs and outputs (:func:`.widen`).

    Operators carried from Relay become what they stand for, unless they are kept for a conversion that names
    them. What is moved, cast or computed of constants alone becomes another constant. Norms and GELU that are
    written out become one operator, einsums matrix products, what takes one index of an axis a slice, a batch
    of one constant matrix or of its copies the matrix, a kernel of which a part meets padding alone a smaller
    one. Activations come before the views between them and their convolution. Changes of memory order that
    the module asks for inside are left to the choice of layouts.

    A batch norm that follows a convolution with constant weights (and perhaps a constant bias) and is
    its only user becomes part of the weights; any other with constant statistics becomes a multiply
    and an add. Results differ from the original's by rounding only.

    VerificationError if the result names layouts that do not fit its tensors.
    """
    return each_alone(module, lambda one: _canonical(one, keep_carried, widened))


def _canonical(module: tvm.IRModule, keep_carried: bool, widened: Collection[str]) -> tvm.IRModule:
    module = without_markers(relax.transform.Normalize()(module))
    module = module if keep_carried else decompose(module)
    # Before anything is computed of weights, so that it is not rounded to half precision again.
    module = fold_constants(contractions_as_products(widen(module, widened)))
    module = relax.transform.CanonicalizeBindings()(module)
    module = to_integers(recognise_operators(module))
    module = rebuild_functions(module, lambda function: _Inference(function).visit_expr(function))
    module = simplify_bindings(module)
    verify_module(module)
    return module


def _product(call: relax.Call, bindings: Bindings) -> Expression:
    return _by_matrix(_by_one_of_copies(call, bindings))


def _broadcast(call: relax.Call, bindings: Bindings) -> Expression:
    """A broadcast, which is nothing to a tensor's own shape."""
    data, shape = call.args
    return data if structural_equal(data.ty.shape, shape) else hoisted(call, bindings)


def _dropout(call: relax.Call, bindings: Bindings) -> Expression:
    return relax.Tuple([call.args[0], call.args[0]])


def _narrowed(call: relax.Call, bindings: Bindings) -> Expression:
    return narrowed(call)


def _narrowed_pooling(call: relax.Call, bindings: Bindings) -> Expression:
    return narrowed_pooling(call)


def _sliced(call: relax.Call, bindings: Bindings) -> Expression:
    """A call of "take" as slice where it has one index; slices move with layouts and are fused."""
    data, index = call.args
    shape = shape_of(data)
    if call.attrs.axis is None or shape is None or not isinstance(index, Constant) or shape_of(index) != ():
        return call
    axis, place = int(call.attrs.axis) % len(shape), int(constant_array(index))
    extent = shape[axis]
    if not isinstance(extent, int) or not 0 <= place < extent:
        return call
    one = relax.op.strided_slice(data, [axis], [place], [place + 1], assume_inbound=True)
    return relax.op.squeeze(bindings.emit(one), [axis])


def _by_one_of_copies(call: relax.Call, bindings: Bindings) -> relax.Call:
    """A product by copies of matrices as one by the matrices, where products repeat them themselves."""
    data, weight = call.args
    copy = bindings.value(weight)
    if not isinstance(copy, relax.Call) or operator_name(copy) != "broadcast_to":
        return call
    shape, copies, extents = shape_of(data), shape_of(copy), shape_of(copy.args[0])
    if shape is None or copies is None or extents is None or len(extents) < 2:
        return call
    # Where data has one matrix for several copies, the result would have fewer.
    batch = list(shape[-len(copies) : -2])
    if not structural_equal([*batch, *extents[-2:]], list(copies)):
        return call
    return with_attributes(call, [data, copy.args[0]])


def _by_matrix(call: relax.Call) -> relax.Call:
    """A product by one constant matrix that is written as a batch of one: the matrix is what kernels pack."""
    data, weight = call.args
    shape, extents = shape_of(data), shape_of(weight)
    if not isinstance(weight, Constant) or shape is None or extents is None:
        return call
    if not 2 < len(extents) <= len(shape) or any(extent != 1 for extent in extents[:-2]):
        return call
    return with_attributes(call, [data, constant(constant_array(weight).reshape(extents[-2:]))])


_FORMS: dict[str, Callable[[relax.Call, Bindings], Expression]] = {
    "broadcast_to": _broadcast,
    "matmul": _product,
    "nn.batch_norm": without_batch_norm,
    "nn.dropout": _dropout,
    "take": _sliced,
    **dict.fromkeys(CONVOLUTION_AXES, _narrowed),
    **dict.fromkeys(ROUNDED_POOLINGS, _narrowed_pooling),
}
"""The inference form of calls, by operator; those of others are hoisted."""


@mutator
class _Inference(PyExprMutator):
    """Brings every call into its form."""

    def __init__(self, function: relax.Function) -> None:
        super().__init__()
        self.uses = count_uses(function)

    def visit_call_(self, call: relax.Call) -> Expression:
        """The inference form of a call with its new arguments."""
        call = super().visit_call_(call)
        bindings = Bindings(self.uses, self.lookup_binding, self.builder_.emit)
        return _FORMS.get(operator_name(call), hoisted)(call, bindings)
