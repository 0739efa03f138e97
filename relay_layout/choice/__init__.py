"""The choice of one signature per operator as a problem of its own: states of tensors, and costs."""

from relay_layout.choice.costs import TransformCosts
from relay_layout.choice.heuristic import approximate
from relay_layout.choice.memory import expanded, expanded_shape, same_memory
from relay_layout.choice.problem import Group, Problem, lower_bound, problem_of, total_cost
from relay_layout.choice.program import Minimum, minimise
from relay_layout.choice.reduction import Reduced, reduce_problem

__all__ = [
    "Group",
    "Minimum",
    "Problem",
    "Reduced",
    "TransformCosts",
    "approximate",
    "expanded",
    "expanded_shape",
    "lower_bound",
    "minimise",
    "problem_of",
    "reduce_problem",
    "same_memory",
    "total_cost",
]
