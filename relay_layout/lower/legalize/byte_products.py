"""Matrix products of two activations of bytes, accumulated in int32."""

from tvm import relax, topi

from relay_layout.ir import Expression, dtype_of, shape_of
from relay_layout.lower.legalize.convolutions import call_compute
from relay_layout.lower.legalize.default import default_call
from topi_ext.compute.byte_product import byte_product
from topi_ext.machine.processor import Processor
from topi_ext.workloads.word_forms import fits_float


def multiplies_bytes(call: relax.Call) -> bool:
    """Whether a product or a convolution is of uint8 by int8, and gives int32."""
    return [dtype_of(each) for each in (*call.args, call)] == ["uint8", "int8", "int32"]


def byte_product_call(
    builder: relax.BlockBuilder, call: relax.Call, processor: Processor | None = None
) -> Expression:
    """A product of uint8 by int8: by instructions that add four products where the ``processor`` has them.

    Others multiply what they do fastest that holds all sums, float32 or int32.
    """
    left, right = (shape_of(operand) or () for operand in call.args)
    depth = left[-1] if isinstance(left[-1], int) else None
    adds_words = processor is not None and processor.word_instructions == 1 and not processor.signed_words
    if adds_words and depth and min(len(left), len(right)) > 1:
        return call_compute(builder, byte_product, "matmul", *call.args)
    dtype = "float32" if depth is not None and fits_float(depth) else "int32"
    sides = [builder.emit(builder.call_te(topi.cast, operand, dtype)) for operand in call.args]
    product = default_call(builder, builder.normalize(relax.op.matmul(*sides)))
    if dtype == "int32":
        return product
    return builder.call_te(topi.cast, builder.emit(product), "int32")
