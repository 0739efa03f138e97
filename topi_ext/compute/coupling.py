"""Probabilities of classes that agree best with those of each class against each other one.

The second method of Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise
coupling" (2004): the p of sum 1 with the least sum over pairs of (r[j, i] p[i] - r[i, j] p[j])^2.
"""

from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import variable, written

ROUNDS = 100
"""After which others end as well."""

TOLERANCE = 0.005
"""The error of all classes together; each has its part."""


def coupled(pairs: te.Tensor) -> list[te.Tensor]:
    """Probabilities (N, K) of K classes, and what they were found by.

    ``pairs`` (N, K, K) of floats has in [i, j] the probability that it is class i, if it is i or j; what it
    has in [i, i] is not read.
    """
    count, classes, _ = pairs.shape
    dtype = str(pairs.dtype)

    def body(pairs: Any, result: Any, form: Any, slope: Any) -> None:
        """``form`` (N, K, K) is the quadratic form, and ``slope`` (N, K) half of its derivative."""
        total, move, farthest, rounds = variable(dtype), variable(dtype), variable(dtype), variable()

        def fill(row: Any, one: Any) -> None:
            result[row, one] = tirx.const(1, dtype) / T.cast(classes, dtype)
            form[row, one, one] = tirx.const(0, dtype)
            with T.serial(0, classes) as other, T.If(other != one), T.Then():
                form[row, one, one] += pairs[row, other, one] * pairs[row, other, one]
                form[row, one, other] = -pairs[row, other, one] * pairs[row, one, other]

        def measure(row: Any) -> None:
            total[0] = tirx.const(0, dtype)
            with T.serial(0, classes) as one:
                slope[row, one] = tirx.const(0, dtype)
                with T.serial(0, classes) as other:
                    slope[row, one] += form[row, one, other] * result[row, other]
                total[0] += result[row, one] * slope[row, one]
            farthest[0] = tirx.const(0, dtype)
            with T.serial(0, classes) as one:
                farthest[0] = T.max(farthest[0], T.abs(slope[row, one] - total[0]))

        def improve(row: Any, one: Any) -> None:
            """Move the probability of one class to the best one, and divide all by what they then sum to."""
            curve = form[row, one, one]
            move[0] = (total[0] - slope[row, one]) / curve
            total[0] = total[0] + move[0] * (move[0] * curve + tirx.const(2, dtype) * slope[row, one])
            result[row, one] += move[0]
            with T.serial(0, classes) as other:
                slope[row, other] += move[0] * form[row, one, other]
            move[0] += tirx.const(1, dtype)
            total[0] = total[0] / (move[0] * move[0])
            with T.serial(0, classes) as other:
                slope[row, other] = slope[row, other] / move[0]
                result[row, other] = result[row, other] / move[0]

        with T.serial(0, count) as row:
            with T.serial(0, classes) as one:
                fill(row, one)
            measure(row)
            rounds[0] = 0
            enough = tirx.const(TOLERANCE, dtype) / T.cast(classes, dtype)
            with T.While(tirx.And(farthest[0] >= enough, rounds[0] < ROUNDS)):
                with T.serial(0, classes) as one:
                    improve(row, one)
                measure(row)
                rounds[0] += 1

    shape = (count, classes)
    return written("coupled", [pairs], [(shape, dtype), (pairs.shape, dtype), (shape, dtype)], body)
