"""Inference form: batch norm folded into convolutions, everything constant computed once.

Weights are changed with numpy, without compiling anything.
"""

from collections.abc import Collection

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm_ffi import structural_equal

from relay_layout.bodies import each_alone
from relay_layout.dim_orders.marker import without_markers
from relay_layout.graph.uses import call_read_once, count_uses
from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    operator_name,
    rebuild_functions,
    shape_of,
    simplify_bindings,
    value_of,
    with_attributes,
)
from relay_layout.quantization import to_integers
from relay_layout.relay.operators import decompose
from relay_layout.rewrite.contraction import contractions_as_products
from relay_layout.rewrite.fold import fold_constants
from relay_layout.rewrite.hoisting import hoisted
from relay_layout.rewrite.narrowing import POOLINGS, narrowed, narrowed_pooling
from relay_layout.rewrite.recognition import recognise_operators
from relay_layout.rewrite.widening import widen
from relay_layout.targets.convolutions import CONVOLUTION_AXES, TRANSPOSED_CONVOLUTIONS
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


@mutator
class _Inference(PyExprMutator):
    """Replaces batch norm, dropout, what takes one known index, batches of one matrix, kernels too large.

    Activations come before views. Broadcasts to a tensor's own shape disappear.
    """

    def __init__(self, function: relax.Function) -> None:
        super().__init__()
        self.uses = count_uses(function)

    def visit_call_(self, call: relax.Call) -> Expression:
        """The inference form of a call; of most it is the call with its new arguments."""
        call = super().visit_call_(call)
        name = operator_name(call)
        if name == "take":
            return self._sliced(call)
        if name == "matmul":
            return _by_matrix(self._by_one_of_copies(call))
        if name == "broadcast_to" and structural_equal(call.args[0].ty.shape, call.args[1]):
            return call.args[0]
        if name in CONVOLUTION_AXES:
            return narrowed(call)
        if name in POOLINGS:
            return narrowed_pooling(call)
        if name == "nn.dropout":
            return relax.Tuple([call.args[0], call.args[0]])
        if name != "nn.batch_norm":
            return hoisted(call, self.uses, self.lookup_binding, self.builder_.emit)
        if bool(call.attrs.training):
            return call
        if not all(isinstance(statistic, Constant) for statistic in call.args[1:]):
            return call
        scale, shift = _scale_and_shift(call)
        axis = int(call.attrs.axis) % len(call.args[0].ty.shape.values)
        result = self._folded(call.args[0], scale, shift, axis)
        if result is None:
            rank = len(call.args[0].ty.shape.values)
            scaled = self.builder_.emit(relax.op.multiply(call.args[0], _along(scale, axis, rank)))
            result = relax.op.add(scaled, _along(shift, axis, rank))
        variable = self.builder_.emit(result)
        return relax.Tuple([variable, call.args[3], call.args[4]])

    def _by_one_of_copies(self, call: relax.Call) -> relax.Call:
        """A product by copies of matrices as one by the matrices, where products repeat them themselves."""
        data, weight = call.args
        copy = value_of(self, weight)
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

    def _sliced(self, call: relax.Call) -> Expression:
        """A call of "take" as slice where it has one index; slices move with layouts and are fused."""
        data, index = call.args
        shape = shape_of(data)
        if (
            call.attrs.axis is None
            or shape is None
            or not isinstance(index, Constant)
            or shape_of(index) != ()
        ):
            return call
        axis, place = int(call.attrs.axis) % len(shape), int(constant_array(index))
        extent = shape[axis]
        if not isinstance(extent, int) or not 0 <= place < extent:
            return call
        one = relax.op.strided_slice(data, [axis], [place], [place + 1], assume_inbound=True)
        return relax.op.squeeze(self.builder_.emit(one), [axis])

    def _folded(self, data: Expression, scale: np.ndarray, shift: np.ndarray, axis: int) -> Expression | None:
        """The convolution (and bias) that computes ``data``, with scale and shift in its constants."""
        producer, bias = call_read_once(data, self.uses, self.lookup_binding), None
        if (
            producer is not None
            and operator_name(producer) == "add"
            and isinstance(producer.args[1], Constant)
        ):
            bias = constant_array(producer.args[1])
            producer = call_read_once(producer.args[0], self.uses, self.lookup_binding)
        if producer is None or not _scales_by_kernel(producer) or not isinstance(producer.args[1], Constant):
            return None
        attributes = producer.attrs
        out_layout = str(attributes.out_layout or attributes.data_layout)
        kernel_layout = str(attributes.kernel_layout)
        rank = len(out_layout)
        if not out_layout.isupper() or out_layout.index("C") != axis or not kernel_layout.isupper():
            return None
        if bias is not None:
            if bias.size not in (1, scale.size) or (bias.size > 1 and _channel_axis(bias, rank) != axis):
                return None
            shift = shift + bias.reshape(-1) * scale
        weight = constant_array(producer.args[1])
        along_outputs = [1] * weight.ndim
        along_outputs[kernel_layout.index("O")] = -1
        folded = (weight * scale.reshape(along_outputs)).astype(weight.dtype)
        convolution = self.builder_.emit(
            relax.Call(producer.op, [producer.args[0], constant(folded)], attributes, producer.ty_args)
        )
        return relax.op.add(convolution, _along(shift.astype(weight.dtype), axis, rank))


def _by_matrix(call: relax.Call) -> relax.Call:
    """A product by one constant matrix that is written as a batch of one: the matrix is what kernels pack."""
    data, weight = call.args
    shape, extents = shape_of(data), shape_of(weight)
    if not isinstance(weight, Constant) or shape is None or extents is None:
        return call
    if not 2 < len(extents) <= len(shape) or any(extent != 1 for extent in extents[:-2]):
        return call
    return with_attributes(call, [data, constant(constant_array(weight).reshape(extents[-2:]))])


def _scale_and_shift(call: relax.Call) -> tuple[np.ndarray, np.ndarray]:
    """``x * scale + shift``, computed in double precision from the four statistics."""
    gamma, beta, mean, variance = (constant_array(argument).astype("float64") for argument in call.args[1:])
    scale = 1.0 / np.sqrt(variance + float(call.attrs.epsilon))
    if bool(call.attrs.scale):
        scale = scale * gamma
    shift = -mean * scale
    if bool(call.attrs.center):
        shift = shift + beta
    dtype = constant_array(call.args[1]).dtype
    return scale.astype(dtype), shift.astype(dtype)


def _scales_by_kernel(call: relax.Call) -> bool:
    """Whether axis O of a call's kernel is the channels of its result; not where it is those of one group."""
    name = operator_name(call)
    if name not in CONVOLUTION_AXES:
        return False
    return name not in TRANSPOSED_CONVOLUTIONS or int(call.attrs.groups) == 1


def _along(vector: np.ndarray, axis: int, rank: int) -> Constant:
    shape = [1] * rank
    shape[axis] = vector.size
    return constant(vector.reshape(shape))


def _channel_axis(array: np.ndarray, rank: int) -> int:
    """The one axis of more than one element of an array broadcast to ``rank`` dimensions; -1 for several."""
    long = [axis for axis, extent in enumerate(array.shape) if extent > 1]
    return long[0] + rank - array.ndim if len(long) == 1 else -1
