"""PyTorch's recurrent layers: one loop each, of known lengths and of open ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import relay_layout  # noqa: E402
from relay_layout.ir import bindings_of, operator_name  # noqa: E402
from relay_layout.recurrent import RECURRENT  # noqa: E402
from tests.relay_layout.frontend.torch.harness import assert_agrees, session_of  # noqa: E402

LAYERS = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}


def layer(kind: str, *sizes: int, **options: Any) -> Any:
    torch.manual_seed(0)
    return LAYERS[kind](*sizes, **options).eval()


class Flat(nn.Module):
    """A layer that is given its first states in turn, and whose results are no nested tuple."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, data: Any, *states: Any) -> Any:
        first = states[0] if len(states) == 1 else states or None
        sequence, last = self.inner(data, first)
        return sequence, *(last if isinstance(last, tuple) else (last,))


def calls(module: Any) -> list[str]:
    return [operator_name(binding.value) for binding in bindings_of(module["main"])]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("LSTM", {}),
        ("LSTM", {"num_layers": 2, "bidirectional": True, "batch_first": True, "dropout": 0.5}),
        ("LSTM", {"bias": False}),
        ("GRU", {"bidirectional": True}),
        ("GRU", {"num_layers": 2, "bias": False, "batch_first": True}),
        ("RNN", {"bidirectional": True, "num_layers": 2}),
        ("RNN", {"nonlinearity": "relu"}),
    ],
)
def test_layers(kind: str, options: dict[str, Any], tmp_path: Path) -> None:
    model = Flat(layer(kind, 5, 7, **options)).eval()
    inputs = (torch.randn(3, 4, 5),)
    found = calls(relay_layout.from_torch(model, inputs))
    assert found.count(RECURRENT) == options.get("num_layers", 1)
    assert_agrees(session_of(model, tmp_path, inputs), model, inputs)


@pytest.mark.parametrize("kind", LAYERS)
def test_first_states_and_a_single_sequence(kind: str, tmp_path: Path) -> None:
    model = Flat(layer(kind, 5, 6, bidirectional=True)).eval()
    states = [torch.randn(2, 6) for _ in range(2 if kind == "LSTM" else 1)]
    inputs = (torch.randn(4, 5), *states)
    assert_agrees(session_of(model, tmp_path, inputs), model, inputs)


@pytest.mark.parametrize("kind", LAYERS)
def test_open_lengths_and_batches(kind: str, tmp_path: Path) -> None:
    model = Flat(layer(kind, 5, 6, num_layers=2, bidirectional=True, batch_first=True)).eval()
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=1, max=500)
    example, shapes = (torch.randn(3, 9, 5),), ({0: batch, 1: length},)
    module = relay_layout.from_torch(model, example, dynamic_shapes=shapes)
    assert calls(module).count(RECURRENT) == 2
    relay_layout.compile(module, threads=2).save(tmp_path / "program.rla")
    session = relay_layout.load(tmp_path / "program.rla")
    for sizes in ((1, 1), (2, 30), (7, 4)):
        assert_agrees(session, model, (torch.randn(*sizes, 5),), f"{sizes}")


def test_a_program_that_was_exported_before(tmp_path: Path) -> None:
    model = Flat(layer("GRU", 5, 6)).eval()
    inputs = (torch.randn(4, 2, 5),)
    program = torch.export.export(model, inputs, strict=False)
    torch.export.save(program, tmp_path / "program.pt2")
    for given in (program, tmp_path / "program.pt2"):
        module = relay_layout.from_torch(given)
        assert calls(module).count(RECURRENT) == 1
    assert_agrees(session_of(program, tmp_path), model, inputs)


def test_projected_states_take_step_after_step(tmp_path: Path) -> None:
    model = Flat(layer("LSTM", 5, 6, proj_size=4)).eval()
    inputs = (torch.randn(3, 2, 5),)
    assert RECURRENT not in calls(relay_layout.from_torch(model, inputs))
    assert_agrees(session_of(model, tmp_path, inputs), model, inputs)


def test_export_is_as_before_behind_it() -> None:
    """What finds shapes without steps is PyTorch's own again."""
    model = layer("LSTM", 5, 6)
    before = torch.ops.aten.lstm.input.py_kernels.copy()
    relay_layout.from_torch(model, (torch.randn(3, 2, 5),))
    assert torch.ops.aten.lstm.input.py_kernels == before
    assert np.isfinite(model(torch.randn(3, 2, 5))[0].detach().numpy()).all()
