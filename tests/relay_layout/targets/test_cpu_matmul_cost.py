"""What matrix products are estimated to take."""

import numpy as np
import pytest
from tvm import relax

from relay_layout.graph import Node, build_graph
from relay_layout.targets import TargetOffers, resolve_target
from tests.relax_modules import module_giving

TARGET = resolve_target("x86-64-v4", threads=2, shipped_records=False)


def product(left: tuple[int, ...], right: tuple[int, ...], *, constant: bool = True) -> list[Node]:
    """The nodes of a product, by a constant or by a second parameter, with an activation."""
    parameters = [relax.Var("left", relax.TensorType(left, "float32"))]
    matrix = relax.const(np.ones(right, "float32"))
    if not constant:
        matrix = relax.Var("right", relax.TensorType(right, "float32"))
        parameters.append(matrix)
    value = relax.op.nn.relu(relax.op.matmul(parameters[0], matrix))
    return build_graph(module_giving(value, *parameters)["main"]).nodes


@pytest.mark.parametrize("rows", [(64,), (4, 16), (4, 4, 4)])
def test_rows_by_a_constant_matrix_take_what_their_kernel_takes(rows: tuple[int, ...]) -> None:
    node = product((*rows, 512), (512, 1024))[0]
    multiply_adds = 64 * 512 * 1024
    share = multiply_adds / TARGET.matmul_us(node) / TARGET.multiply_adds_per_us("float32")
    assert 0.2 < share < 1.0


def test_twice_the_columns_take_about_twice_as_long() -> None:
    one, two = (TARGET.matmul_us(product((64, 512), (512, columns))[0]) for columns in (1024, 2048))
    assert two == pytest.approx(2 * one, rel=0.3)


def test_a_product_of_computed_matrices_takes_longer() -> None:
    by_constant, by_value = (
        TARGET.matmul_us(product((64, 512), (512, 1024), constant=constant)[0]) for constant in (True, False)
    )
    assert by_value > 2 * by_constant


@pytest.mark.parametrize(("left", "right"), [((0, 8), (8, 8)), ((8,), (8,))])
def test_next_to_nothing_takes_no_time(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    assert TARGET.matmul_us(product(left, right)[0]) == 0.0


def test_an_activation_in_the_kernel_of_its_operand_moves_nothing() -> None:
    matmul, relu = product((64, 512), (512, 1024))
    offers = TargetOffers(TARGET)
    assert offers.operator_cost(matmul, (), ()) == TARGET.matmul_us(matmul)
    assert offers.operator_cost(relu, (), ()) == 0.0
