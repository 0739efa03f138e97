"""PyTorch's own table of operations: on its own samples each is right, or refused in one line.

The table is part of PyTorch's tests, which need the package expecttest. Left to the sweep: half an hour.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

# PyTorch's tests forbid the whole process to set its flags, as they are imported; here others set some after.
with torch.backends.__allow_nonbracketed_mutation():
    from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree  # noqa: E402

import relay_layout  # noqa: E402
from relay_layout.errors import RelayLayoutError  # noqa: E402

pytestmark = pytest.mark.slow

OTHERS = (
    "fft.",
    "linalg.",
    "signal.",
    "special.",
    "masked.",
    "sparse.",
    "stft",
    "istft",
    "ops.",
    "to_sparse",
)
"""Families of which next to nothing is supported, or that are other operations by another name."""

_LAYERS = (
    *("avg_pool2d", "batch_norm", "conv2d", "conv_transpose2d", "gelu", "grid_sample"),
    *("group_norm", "layer_norm", "linear", "max_pool2d", "pad", "relu", "softmax"),
)
SUPPORTED = {
    *("add", "amax", "argmax", "bmm", "cat", "clamp", "cumsum", "div", "einsum", "eq", "exp"),
    *("expand", "flip", "gather", "index_select", "le", "log_softmax", "logsumexp", "matmul"),
    *("max", "mean", "mul", "permute", "pow", "reshape", "scatter", "select", "sigmoid"),
    *("sort", "split", "sub", "sum", "tanh", "topk", "transpose", "where"),
    *(f"nn.functional.{name}" for name in _LAYERS),
}
"""Operations of which not all samples may be refused."""

UNDEFINED = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"}
"""Whatever lies in memory is as good as any."""

TIES = {"argsort", "kthvalue", "sort", "topk", "msort", "mode", "median", "nanmedian"}
"""Operations whose places are any of several, among equal elements."""

SAMPLES = 4
DTYPES = (torch.float32, torch.int64, torch.bool)


class Operation(torch.nn.Module):
    """One operation on a sample: tensors are inputs, whatever else it takes is fixed."""

    def __init__(self, function: Any, sample: Any) -> None:
        super().__init__()
        self.function = function
        leaves, self.structure = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self.fixed = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
        self.inputs = tuple(leaf.detach().clone() for leaf in leaves if isinstance(leaf, torch.Tensor))

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        remaining = iter(given)
        leaves = [next(remaining) if fixed is None else fixed[0] for fixed in self.fixed]
        arguments, options = pytree.tree_unflatten(leaves, self.structure)
        found = pytree.tree_flatten(self.function(*arguments, **options))[0]
        # An output may not be an input, nor a view of one.
        return tuple(value.clone() for value in found if isinstance(value, torch.Tensor))


def samples(operation: Any) -> Iterator[tuple[Any, Any]]:
    for dtype in DTYPES:
        if operation.supports_dtype(dtype, "cpu"):
            drawn = list(operation.sample_inputs("cpu", dtype, requires_grad=False))
            for sample in drawn[:: max(1, len(drawn) // SAMPLES)][:SAMPLES]:
                yield dtype, sample


def computed(model: Operation, folder: Path) -> list[np.ndarray] | str:
    """The outputs, or why there are none."""
    try:
        program = torch.export.export(model, model.inputs, strict=False)
    except Exception as error:
        return f"not exported: {error}"
    try:
        relay_layout.compile(relay_layout.from_torch(program)).save(folder / "operation.rla")
        session = relay_layout.load(folder / "operation.rla", permute=True)
        feed = {spec.name: value for spec, value in zip(session.inputs, model.inputs, strict=True)}
        return list(session.run(feed).values())
    except RelayLayoutError as error:
        assert "\n" not in str(error)
        return str(error)


def compared(found: list[np.ndarray], wanted: tuple[torch.Tensor, ...], ties: bool) -> None:
    for place, (have, tensor) in enumerate(zip(found, wanted, strict=True)):
        want = tensor.numpy()
        assert (have.shape, have.dtype) == (want.shape, want.dtype)
        if want.dtype.kind == "f":
            scale = np.abs(want[np.isfinite(want)]).max(initial=1e-3)
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4 * scale)
        elif not ties or (place == 0 and len(wanted) > 1):
            np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize(
    "operation", [one for one in op_db if not one.name.startswith(OTHERS)], ids=lambda one: one.full_name
)
def test_is_right_or_refused(operation: Any, tmp_path: Path) -> None:
    right = 0
    for place, (dtype, sample) in enumerate(samples(operation)):
        torch.manual_seed(0)
        model = Operation(operation.op, sample).eval()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                wanted = model(*model.inputs)
            except Exception:
                continue
            complex_ones = any(value.is_complex() for value in (*wanted, *model.inputs))
            if (
                not model.inputs
                or not wanted
                or complex_ones
                or 0 in [value.numel() for value in model.inputs]
            ):
                continue
            found = computed(model, tmp_path)
        if isinstance(found, str) or operation.name in UNDEFINED:
            continue
        try:
            compared(found, wanted, operation.name in TIES)
        except AssertionError as error:
            raise AssertionError(f"{operation.full_name}, {dtype}, sample {place}: {error}") from None
        right += 1
    assert right or operation.full_name not in SUPPORTED
