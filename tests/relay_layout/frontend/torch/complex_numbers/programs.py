"""Programs of complex numbers in tests: rewritten into real ones, and computed by PyTorch."""

from collections.abc import Sequence

import torch
from torch.utils._pytree import tree_leaves

from relay_layout.frontend.torch.decompositions import apart
from relay_layout.frontend.torch.folding import fold_constants
from tests.relay_layout.frontend.torch.harness import Every, Functions


class EveryComplex(Every):
    """All of the functions on the same complex inputs, which are given by their parts, as results are."""

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = super().forward(*map(torch.view_as_complex, inputs))
        return tuple(torch.view_as_real(one.resolve_conj()) if one.is_complex() else one for one in found)


def rewritten(model: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> torch.nn.Module:
    """The program in real numbers alone, as PyTorch computes it."""
    program = fold_constants(apart(torch.export.export(model.eval(), tuple(inputs), strict=False), "program"))
    for node in program.graph.nodes:
        values = [one for one in tree_leaves(node.meta.get("val")) if isinstance(one, torch.Tensor)]
        assert not any(value.is_complex() for value in values), node
    return program.module()


def assert_keeps(functions: Functions, *inputs: torch.Tensor) -> None:
    """Each function of complex inputs computes the same in real numbers."""
    model, parts = EveryComplex(functions), [torch.view_as_real(one) for one in inputs]
    found = rewritten(model, parts)(*parts)
    for name, have, want in zip(functions, found, model(*parts), strict=True):
        torch.testing.assert_close(
            have, want, rtol=1e-5, atol=1e-5, equal_nan=True, msg=lambda text, name=name: f"{name}: {text}"
        )
