"""The steps of recurrent layers, as :mod:`relay_layout.frontend.torch.rules.recurrent` has them."""

from typing import Any

from tvm import relax

from relay_layout.frontend.torch.node import Converter
from relay_layout.ir import Expression
from relay_layout.recurrent import recurrent
from topi_ext.compute.recurrent.activations import Activation
from topi_ext.compute.recurrent.recurrence import Recurrence


def _steps(node: Any, importer: Any) -> Expression:
    """A call of :func:`relay_layout.recurrent.recurrent`."""
    kind, activations, backwards, *given = importer.retrieve_args(node)
    projected, weight, hidden, cell, bias = given
    forms = tuple(Activation(str(name)) for name in activations)
    recurrence = Recurrence(kind, tuple(map(bool, backwards)), (forms,) * len(backwards))
    call = recurrent(recurrence, projected, weight, hidden=hidden, cell=cell, bias=bias)
    found = importer.block_builder.emit(call)
    fields = range(1 + len(recurrence.states))
    return relax.Tuple([importer.block_builder.emit(relax.TupleGetItem(found, field)) for field in fields])


CONVERTERS: dict[str, Converter] = {"recurrent.default": _steps}
"""By the names that TVM's importer would have for operations."""
