"""What tests ask of the solver beside what plans do."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from relay_layout.choice import solver
from relay_layout.choice.problem import Problem
from relay_layout.choice.reduction import Reduced
from relay_layout.graph import Node
from relay_layout.ops import Signature


def own_cost(node: Node, signature: Signature) -> float:
    """The cost that the signature itself declares, in microseconds."""
    return signature.cost


@contextmanager
def unreduced() -> Iterator[None]:
    """Within it, the integer program gets whole problems."""

    def whole(problem: Problem) -> Reduced:
        return Reduced(problem, ())

    with patch.object(solver, "reduce_problem", whole):
        yield
