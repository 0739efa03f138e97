"""Which tensor a variable is another name or a view of."""

import pytest
from tvm import relax

from relay_layout.lower.memory.aliases import Aliases

SHAPE = (2, 6)


def variable(name: str, shape: tuple[int, ...] = SHAPE) -> relax.Var:
    return relax.Var(name, relax.TensorType(shape, "float32"))


DATA, NAMED = variable("data"), variable("named")
FLAT, FURTHER, COMPUTED = (variable(name, (12,)) for name in ("flat", "further", "computed"))
POINTED, OF_CONSTANT = variable("pointed"), variable("of_constant", (1,))

BOTH = relax.Var("both", relax.TupleType([DATA.ty, COMPUTED.ty]))
FIRST, SECOND, OTHER = variable("first"), variable("second", (12,)), variable("other")
GIVEN = relax.Var("given", relax.TupleType([DATA.ty]))

ALIASES = Aliases(
    [
        relax.VarBinding(NAMED, DATA),
        relax.VarBinding(FLAT, relax.op.reshape(NAMED, (12,))),
        relax.MatchCast(FURTHER, FLAT, FLAT.ty),
        relax.VarBinding(POINTED, relax.op.memory.ensure_zero_offset(DATA)),
        relax.VarBinding(COMPUTED, relax.op.nn.relu(FLAT)),
        relax.VarBinding(OF_CONSTANT, relax.op.reshape(relax.const(1.0), (1,))),
        relax.VarBinding(BOTH, relax.Tuple([NAMED, COMPUTED])),
        relax.VarBinding(FIRST, relax.TupleGetItem(BOTH, 0)),
        relax.VarBinding(SECOND, relax.TupleGetItem(BOTH, 1)),
        relax.VarBinding(OTHER, relax.TupleGetItem(GIVEN, 0)),
    ]
)


@pytest.mark.parametrize("alias", [NAMED, FLAT, FURTHER, POINTED, FIRST], ids=lambda alias: alias.name)
def test_names_and_views_lead_to_the_tensor(alias: relax.Var) -> None:
    assert alias in ALIASES
    assert ALIASES.root(alias).same_as(DATA)


@pytest.mark.parametrize("own", [DATA, COMPUTED, OF_CONSTANT, OTHER], ids=lambda own: own.name)
def test_what_is_no_view_of_a_variable_is_its_own(own: relax.Var) -> None:
    assert own not in ALIASES
    assert ALIASES.root(own).same_as(own)


def test_fields_of_a_tuple_are_told_apart() -> None:
    assert ALIASES.root(SECOND).same_as(COMPUTED)
