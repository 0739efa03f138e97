"""Calls as TVM lowers them, where nothing here does it better."""

from tvm import relax

from relay_layout.ir import Expression


def default_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """What TVM's own legalization makes of a call of an operator that has one."""
    return call.op.get_attr("FLegalize")(builder, call)
