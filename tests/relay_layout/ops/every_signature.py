"""Every signature that a rule offers, run and compared with the operator as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_layout.choice.solver import Solution
from relay_layout.graph import Graph, Node, Value, build_graph
from relay_layout.layout import Layout
from relay_layout.ops import TABLE, ConvolutionLayouts, Signature, Wanted, unchanged
from relay_layout.rewrite.rewriter import rewrite
from tests.legalizing import legalized
from tests.relax_modules import main_of

Emit = Callable[..., Any]
"""The expression under test, from the variables of the function."""

PLAIN = {
    4: ("ABCD", "ACDB", "BACD", "ADBC", "DCBA"),
    5: ("ABCDE", "ACDEB", "CDEAB", "EDCBA"),
    6: ("ABCDEF", "ACDEFB"),
}


class NoCosts:
    """Offers nothing and costs nothing; a convolution's layouts where they are given."""

    def __init__(self, convolutions: Sequence[ConvolutionLayouts] = ()) -> None:
        self.convolutions = convolutions

    def convolution_layouts(self, node: Node) -> Sequence[ConvolutionLayouts]:
        return self.convolutions

    def operator_cost(self, node: Node, operands: Sequence[Layout], results: Sequence[Layout]) -> float:
        return 0.0


def layouts_of(value: Value) -> tuple[Layout, ...]:
    """Orders of the dimensions, and blocks of each one of them; of one element too, as after a sum."""
    rank = value.rank
    letters = str(Layout.generic(rank))
    plain = PLAIN.get(rank) or tuple("".join(order) for order in permutations(letters))
    texts = [*plain, *(f"{letters}{block}{letter.lower()}" for letter in letters for block in (1, 2, 4))]
    if rank == 4:
        texts += ["ACDB4b", "AB4bCD", "ABCD2b2b", "ABCD4b2d"]
    return tuple(Layout.parse(text) for text in texts) if rank else (Layout.generic(0),)


def function_of(emit: Emit, *inputs: np.ndarray | relax.Var) -> relax.Function:
    """A function of one variable for each input, which gives what ``emit`` makes of them."""
    parameters = [
        one
        if isinstance(one, relax.Var)
        else relax.Var(f"x{place}", relax.TensorType(one.shape, str(one.dtype)))
        for place, one in enumerate(inputs)
    ]
    with main_of(*parameters) as builder:
        builder.result = builder.emit(emit(*parameters))
    module = relax.transform.Normalize()(builder.finalize())
    return module["main"]


def tested(graph: Graph, operator: str) -> Node:
    return next(node for node in graph.nodes if node.operator == operator)


def signatures_of(
    function: relax.Function, operator: str, convolutions: Sequence[ConvolutionLayouts] = ()
) -> list[Signature]:
    """What the operator's rule offers when its neighbours have every layout there is."""
    node = tested(build_graph(function), operator)
    wanted = Wanted(tuple(map(layouts_of, node.operands)), tuple(map(layouts_of, node.results)))
    return list(TABLE[operator].signatures(node, wanted, NoCosts(convolutions)))


def data_layouts(signatures: Sequence[Signature]) -> set[str]:
    """The layouts of the first operand, or of the result where there is none."""
    return {str((signature.operands or signature.results)[0]) for signature in signatures}


def check(
    operator: str,
    emit: Emit,
    *inputs: np.ndarray,
    convolutions: Sequence[ConvolutionLayouts] = (),
    symbolic: Sequence[relax.Var] | None = None,
    tolerance: float = 1e-5,
) -> set[str]:
    """Run every signature, compare with the operator as it is, and return the layouts of its data.

    ``symbolic`` are the parameters to compile for, where their extents are not those of ``inputs``.
    """
    function = function_of(emit, *(symbolic or inputs))
    signatures = signatures_of(function, operator, convolutions)
    variants = [function]
    for signature in signatures:
        graph = build_graph(function)
        node = tested(graph, operator)
        chosen = {other: unchanged(other) for other in graph.nodes} | {node: signature}
        solution = Solution(chosen, "optimal", 0.0, 0.0, 0.0)
        outputs = {value: value.identity for value in graph.outputs()}
        variants.append(rewrite(graph, solution, outputs).function)
    want, *found = run_functions(variants, inputs)
    for signature, have in zip(signatures, found, strict=True):
        for expected, result in zip(want, have, strict=True):
            where = f"{operator} as {[*map(str, signature.operands)]} -> {[*map(str, signature.results)]}"
            assert expected.shape == result.shape and expected.dtype == result.dtype, where
            np.testing.assert_allclose(result, expected, tolerance, tolerance, err_msg=where)
    return data_layouts(signatures)


def run_functions(
    functions: Sequence[relax.Function], inputs: Sequence[np.ndarray]
) -> Iterator[list[np.ndarray]]:
    names = [f"variant{place}" for place in range(len(functions))]
    module = tvm.IRModule(
        {
            name: function.with_attr("global_symbol", name)
            for name, function in zip(names, functions, strict=True)
        }
    )
    target = tvm.target.Target({"kind": "llvm", "opt-level": 0})
    with target:
        module = legalized(module)
    machine = relax.VirtualMachine(tvm.compile(module, target), tvm.cpu())
    for name in names:
        result = machine[name](*[tvm.runtime.tensor(one) for one in inputs])
        tensors = [result] if isinstance(result, tvm.runtime.Tensor) else result
        yield [tensor.numpy() for tensor in tensors]


def image(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    """Distinct values, in no order, so that a wrong axis shows."""
    size = int(np.prod(shape))
    return (np.random.default_rng(seed).permutation(size) / size * 4 - 2).reshape(shape).astype(dtype)


def vector(size: int, seed: int = 1) -> Any:
    return relax.const(np.random.default_rng(seed).uniform(0.5, 1.5, size).astype("float32"))


def integers(*values: object) -> Any:
    return relax.const(np.array(values), "int64")


Case = tuple[str, Emit, Sequence[np.ndarray], str, str]
"""An operator, an expression, its inputs; layouts of its data that are carried, and some that are not."""


def check_case(case: Case) -> None:
    """Every signature computes the same, and the layouts named are carried, or not."""
    operator, emit, inputs, carried, kept = case
    found = check(operator, emit, *inputs)
    assert set(carried.split()) <= found, f"{operator}: carried in {sorted(found)}"
    assert not set(kept.split()) & found, f"{operator}: carried in {sorted(found)}"
