"""What attributes of Relay's operators are made of, and the sets that families of operators share."""

from typing import NamedTuple

from relay_layout.relay.syntax.tree import AttributeValue

NODE = "node"
"""The index of a node: lists, optional numbers."""
INTEGER = "integer"
BOOLEAN = "boolean"
DOUBLE = "double"
TEXT = "text"
"""The text itself or the index of a node with the text, by TVM's version; no text of these is a number."""
DATA_TYPE = "data type"


class _Required:
    pass


REQUIRED = _Required()
"""The default of an attribute that has none, which text therefore always shows."""


class Attribute(NamedTuple):
    """How an attribute is stored, and its default.

    ``before`` is what an attribute without default was in versions of TVM that did not have it.
    """

    kind: str
    default: AttributeValue | _Required = REQUIRED
    before: AttributeValue | _Required = REQUIRED


Declaration = dict[str, Attribute]


def node(default: AttributeValue | _Required = REQUIRED) -> Attribute:
    """An attribute stored as the index of a node."""
    return Attribute(NODE, default)


def integer(default: int | _Required = REQUIRED) -> Attribute:
    """An attribute stored as a number without a point."""
    return Attribute(INTEGER, default)


def boolean(default: bool | _Required = REQUIRED) -> Attribute:
    """An attribute stored as 0 or 1."""
    return Attribute(BOOLEAN, default)


def double(default: float | _Required = REQUIRED) -> Attribute:
    """An attribute stored as a floating point number."""
    return Attribute(DOUBLE, default)


def text(default: str | _Required = REQUIRED) -> Attribute:
    """An attribute stored as text."""
    return Attribute(TEXT, default)


ABSENT = Attribute(NODE, None)
DTYPE = Attribute(DATA_TYPE, None)
REQUIRED_DTYPE = Attribute(DATA_TYPE)
FLAG = boolean(False)


def strides(rank: int) -> Declaration:
    """Strides of one per dimension."""
    return {"strides": node((1,) * rank)}


def convolution(rank: int, data_layout: str, kernel_layout: str, padding: int | None = None) -> Declaration:
    """The attributes of a convolution over ``rank`` dimensions."""
    return {
        **strides(rank),
        "padding": node((0,) * (rank if padding is None else padding)),
        "dilation": node((1,) * rank),
        "groups": integer(1),
        "channels": ABSENT,
        "kernel_size": ABSENT,
        "data_layout": text(data_layout),
        "kernel_layout": text(kernel_layout),
        "out_layout": text(""),
        "out_dtype": DTYPE,
    }


def transposed(rank: int, data_layout: str, kernel_layout: str) -> Declaration:
    """The attributes of a transposed convolution."""
    return {
        "channels": ABSENT,
        "kernel_size": ABSENT,
        **strides(rank),
        "output_padding": node((0,) * rank),
        **convolution(rank, data_layout, kernel_layout),
    }


def binary_convolution() -> Declaration:
    """The attributes of a convolution of packed bits."""
    dense = convolution(2, "NCHW", "OIHW")
    return {
        **{name: dense[name] for name in ("strides", "padding", "channels", "data_layout", "out_dtype")},
        "kernel_size": node((3, 3)),
        "kernel_layout": text("OIHW"),
        "activation_bits": integer(1),
        "weight_bits": integer(1),
        "pack_dtype": DTYPE,
        "unipolar": boolean(True),
    }


def max_pool(rank: int, layout: str) -> Declaration:
    """The attributes of a maximum over windows."""
    return {
        "pool_size": node(),
        **strides(rank),
        "dilation": node((1,) * rank),
        "padding": node((0,) * rank),
        "layout": text(layout),
        "out_layout": text(""),
        "ceil_mode": FLAG,
    }


def avg_pool(rank: int, layout: str) -> Declaration:
    """The attributes of an average over windows."""
    return {**max_pool(rank, layout), "count_include_pad": FLAG}


def adaptive_pool(layout: str) -> Declaration:
    """The attributes of a pooling that is given by the size of its result."""
    return {"output_size": node(()), "layout": text(layout), "out_layout": text("")}


def resize(layout: str) -> Declaration:
    """The attributes of an image resizing."""
    return {
        "size": ABSENT,
        "roi": ABSENT,
        "layout": text(layout),
        "method": text("linear"),
        "coordinate_transformation_mode": text("half_pixel"),
        "rounding_method": text("round"),
        "cubic_alpha": double(-0.5),
        "cubic_exclude": integer(0),
        "extrapolation_value": double(0.0),
        "out_dtype": DTYPE,
    }


def normalization(axis: int) -> Declaration:
    """The attributes of a normalization whose usual axis is given."""
    return {
        "axis": integer(axis),
        "epsilon": double(1e-5),
        "center": boolean(True),
        "scale": boolean(True),
    }


def matmul() -> Declaration:
    """The attributes of a product of matrices."""
    return {"out_dtype": DTYPE, "transpose_a": FLAG, "transpose_b": FLAG}


def binary_dense() -> Declaration:
    """The attributes of a product of matrices of packed bits."""
    return {
        "units": node(),
        "data_bits": integer(1),
        "weight_bits": integer(1),
        "pack_dtype": DTYPE,
        "out_dtype": DTYPE,
        "unipolar": boolean(True),
    }


REDUCE: Declaration = {"axis": ABSENT, "keepdims": FLAG, "exclude": FLAG}
