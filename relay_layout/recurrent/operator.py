"""The operator that Relax lacks for recurrent layers: all steps and directions of LSTM, GRU or RNN.

It is registered with TVM as ``relax.relay_layout.recurrent``, with its loop over time
(:mod:`topi_ext.compute.recurrent.layers`), whose arguments it has but for the weight, which is not packed
yet.
"""

from typing import Any

import tvm
from tvm import relax, te
from tvm.ir import Op

from relay_layout.ir import Constant, Expression, constant, constant_array, dtype_of, shape_of
from relay_layout.own_operators import ANY_NUMBER, register_operator
from topi_ext.compute.recurrent import layers as kernel
from topi_ext.compute.recurrent.activations import Activation
from topi_ext.compute.recurrent.recurrence import OPTIONAL, Recurrence
from topi_ext.machine.processor import processor_of

RECURRENT = "relay_layout.recurrent"

_NAME = f"relax.{RECURRENT}"


def recurrent(
    recurrence: Recurrence, projected: Expression, weight: Expression, **optional: Expression | None
) -> relax.Call:
    """The hidden states [T, D, B, H] of all steps and directions, and the last of each state [D, B, H].

    ``projected`` [T, B, D * gates * H] are the data by their weights, with the bias; ``weight``
    [D, H, gates * H] multiplies the hidden state. ``optional`` are some of
    :data:`topi_ext.compute.recurrent.recurrence.OPTIONAL`, of the shapes that
    :func:`topi_ext.compute.recurrent.layers.recurrent` says; None is as good as none. All have one float
    dtype, but for ``lengths``, which are int32. Kernels compute float32.
    """
    assert not set(optional) - set(OPTIONAL)
    given = {name: optional[name] for name in OPTIONAL if optional.get(name) is not None}
    forms = [form for direction in recurrence.activations for form in direction]
    attributes = tvm.ir.make_node(
        "ir.DictAttrs",
        kind=recurrence.kind,
        backwards=[int(backwards) for backwards in recurrence.backwards],
        activations=[form.name for form in forms],
        alphas=[float(form.alpha) for form in forms],
        betas=[float(form.beta) for form in forms],
        clip=float(recurrence.clip),
        input_forget=int(recurrence.input_forget),
        optional=list(given),
    )
    return relax.Call(Op.get(_NAME), [projected, weight, *given.values()], attributes)


def recurrence_of(call: relax.Call) -> Recurrence:
    """What a call of the operator computes."""
    attributes = call.attrs
    backwards = tuple(bool(one) for one in attributes["backwards"])
    forms = [
        Activation(str(name), float(alpha), float(beta))
        for name, alpha, beta in zip(
            *(attributes[name] for name in ("activations", "alphas", "betas")), strict=True
        )
    ]
    count = len(forms) // len(backwards)
    return Recurrence(
        str(attributes["kind"]),  # type: ignore[arg-type]
        backwards,
        tuple(tuple(forms[start : start + count]) for start in range(0, len(forms), count)),
        float(attributes["clip"]),
        bool(attributes["input_forget"]),
    )


def optional_of(call: relax.Call) -> dict[str, Expression]:
    """What a call is given beside data and weight, by name."""
    names = [str(name) for name in call.attrs["optional"]]
    return dict(zip(names, call.args[2:], strict=True))


def _infer_type(call: relax.Call, builder: relax.BlockBuilder) -> Any:
    projected, weight = call.args[:2]
    (length, batch, _), (directions, hidden, _) = shape_of(projected), shape_of(weight)  # type: ignore[misc]
    dtype = dtype_of(projected)
    state = relax.TensorType([directions, batch, hidden], dtype)
    states = [state] * len(recurrence_of(call).states)
    return relax.TupleType([relax.TensorType([length, directions, batch, hidden], dtype), *states])


def _legalized(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    recurrence, optional = recurrence_of(call), optional_of(call)
    projected, weight = call.args[:2]
    target = tvm.target.Target.current(allow_none=True)
    processor = processor_of(target or tvm.target.Target("llvm"))
    if isinstance(weight, Constant):
        weight = constant(kernel.packed(constant_array(weight)))
    else:
        weight = builder.emit(builder.call_te(kernel.pack, weight, primfunc_name_hint="pack"))

    def loop(data: te.Tensor, matrix: te.Tensor, *others: te.Tensor) -> list[te.Tensor]:
        given = dict(zip(optional, others, strict=True))
        return kernel.recurrent(recurrence, data, matrix, given, processor=processor)

    name = recurrence.kind.lower()
    return builder.call_te(loop, projected, weight, *optional.values(), primfunc_name_hint=name)


register_operator(
    _NAME,
    "All steps of a recurrent layer",
    ("projected", "weight"),
    inputs=ANY_NUMBER,
    infer_type=_infer_type,
    legalize=_legalized,
)
