"""The operator table: one row for each Relay operator, for the Python surface, text and JSON alike."""

from difflib import get_close_matches

from relay_layout.ir import Expression, operator_name
from relay_layout.relay.operators import (
    activations,
    annotations,
    carried,
    convolutions,
    creation,
    elementwise,
    images,
    linear,
    normalization,
    padding,
    pooling,
    quantized,
    reductions,
    run_time_shapes,
    shapes,
    slicing,
    sorting,
    spatial,
    vision,
)
from relay_layout.relay.operators.operator import Exported, Operator

TABLE: dict[str, Operator] = {
    row.name: row
    for family in (
        activations,
        annotations,
        convolutions,
        creation,
        elementwise,
        images,
        linear,
        normalization,
        padding,
        pooling,
        quantized,
        reductions,
        run_time_shapes,
        shapes,
        slicing,
        sorting,
        spatial,
        vision,
    )
    for row in family.ROWS
}
"""Relay's operator name to its row."""

for _row in TABLE.values():
    if _row.carried:
        carried.register(_row)

_BY_RELAX_NAME: dict[str, list[Operator]] = {}
for _row in TABLE.values():
    for _name in _row.relax_names:
        _BY_RELAX_NAME.setdefault(_name, []).append(_row)


def did_you_mean(name: str) -> str:
    """The end of a message about an operator that is not there: the one with the most similar name.

    Of those for any number of dimensions the one for images.
    """
    near = [f"{name}2d"] if f"{name}2d" in TABLE else get_close_matches(name, TABLE, 1, 0.75)
    return f"; did you mean {near[0]}?" if near else ""


def relay_form(call: Expression) -> tuple[Operator, Exported] | None:
    """The Relay operator that a Relax call is, with its operands and complete attributes.

    None where Relay has no such operator, or not in this form.
    """
    row = carried.row_of(call)
    if row is not None:
        return row, Exported(list(call.args), carried.attributes_of(call))
    for row in _BY_RELAX_NAME.get(operator_name(call), ()):
        exported = row.export(call) if row.export is not None else None
        if exported is None:
            continue
        if not isinstance(exported, Exported):
            exported = Exported(list(call.args), exported)
        return row, exported
    return None
