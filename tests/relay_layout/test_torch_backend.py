"""The backend of torch.compile."""

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import relay_layout  # noqa: E402
from relay_layout import torch_backend  # noqa: E402
from relay_layout.errors import ModelError  # noqa: E402


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolution = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.linear = nn.Linear(8, 5)
        self.register_buffer("factors", torch.rand(8, 1, 1))

    def forward(self, x: torch.Tensor, times: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.norm(self.convolution(x)).relu() * self.factors
        return self.linear(y.mean((2, 3))) * times, y


@pytest.fixture
def compiled_shapes(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The shapes of the first input of each network that was compiled."""
    torch._dynamo.reset()
    shapes: list[list[int]] = []
    compile = torch_backend.compile

    def counted(module: Any, **options: Any) -> Any:
        shapes.append([int(extent) for extent in module["main"].params[0].ty.shape])
        return compile(module, **options)

    monkeypatch.setattr(torch_backend, "compile", counted)
    return shapes


def image(batch: int, memory_format: torch.memory_format = torch.contiguous_format) -> torch.Tensor:
    generator = torch.Generator().manual_seed(batch)
    return torch.randn(batch, 3, 6, 5, generator=generator).contiguous(memory_format=memory_format)


def assert_same(compiled: Any, model: nn.Module, *inputs: Any) -> None:
    for ours, theirs in zip(compiled(*inputs), model(*inputs), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-5)
        assert ours.stride() == theirs.stride()


@torch.no_grad()
def test_shapes_and_memory_formats(compiled_shapes: list[list[int]]) -> None:
    model = Network().eval()
    compiled = torch.compile(model, backend=torch_backend.relay_layout)
    for batch in (2, 4, 3, 4, 2):
        assert_same(compiled, model, image(batch))
    assert sorted(shape[0] for shape in compiled_shapes) in ([2, 3, 4], [2, 2, 3, 4])
    assert_same(compiled, model, image(2, torch.channels_last))
    assert_same(compiled, model, image(2), 7)


@torch.no_grad()
def test_dynamic_shapes(compiled_shapes: list[list[int]]) -> None:
    """Dynamo then passes what layers are told, such as an epsilon, as tensors without dimensions."""
    model = Network().eval()
    compiled = torch.compile(model, backend=torch_backend.relay_layout, dynamic=True)
    for batch in (2, 3, 2):
        assert_same(compiled, model, image(batch))
    assert [shape[0] for shape in compiled_shapes] == [2, 3]


@torch.no_grad()
def test_weights_that_change(compiled_shapes: list[list[int]]) -> None:
    """They are constants of what was compiled, so that it is compiled anew."""
    model = Network().eval()
    compiled = torch.compile(model, backend=torch_backend.relay_layout)
    for change in (
        lambda: None,
        lambda: model.factors.mul_(2),
        lambda: setattr(model.linear.weight, "data", torch.ones(5, 8)),
        lambda: model.load_state_dict(Network().state_dict()),
    ):
        change()
        assert_same(compiled, model, image(2))
    before = len(compiled_shapes)
    assert_same(compiled, model, image(2))
    assert before == len(compiled_shapes) == 4


@torch.no_grad()
def test_bfloat16() -> None:
    """Inputs, results and weights, beside others."""
    torch._dynamo.reset()

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 5, dtype=torch.bfloat16)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            found = self.linear(x).relu()
            return found, found.float() + y

    model = Both().eval()
    compiled = torch.compile(model, backend=torch_backend.relay_layout)
    inputs = torch.randn(3, 8).bfloat16(), torch.randn(3, 5)
    for ours, theirs in zip(compiled(*inputs), model(*inputs), strict=True):
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2)


@torch.no_grad()
def test_autocast() -> None:
    torch._dynamo.reset()

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            with torch.autocast("cpu", torch.bfloat16):
                found = self.linear(x).relu()
            return found, found.float() + 1

    model, inputs = Mixed().eval(), torch.randn(3, 8)
    compiled = torch.compile(model, backend=torch_backend.relay_layout)
    for ours, theirs in zip(compiled(inputs), model(inputs), strict=True):
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2)


@torch.no_grad()
@pytest.mark.parametrize("norm_first", [False, True], ids=["norms last", "norms first"])
@pytest.mark.parametrize("masks", [(), ("keys",), ("words",), ("keys", "words")], ids=str)
def test_encoder_layers(norm_first: bool, masks: tuple[str, ...]) -> None:
    """Dynamo takes the one operation that they call for inference."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        8, 2, 16, activation="gelu" if norm_first else "relu", batch_first=True, norm_first=norm_first
    )
    for parameter in layer.parameters():
        parameter.normal_(std=0.5)
    compiled = torch.compile(layer.eval(), backend=torch_backend.relay_layout)
    words = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    keys = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    arguments = torch.randn(2, 5, 8), words if "words" in masks else None, keys if "keys" in masks else None
    np.testing.assert_allclose(compiled(*arguments), layer(*arguments), rtol=1e-4, atol=1e-5)


def test_options() -> None:
    torch._dynamo.reset()
    model = Network().eval()
    compiled = torch.compile(
        model, backend=torch_backend.relay_layout, options={"desired_layout": "none", "threads": 1}
    )
    with torch.inference_mode():
        assert_same(compiled, model, image(1))


def test_training_is_refused() -> None:
    torch._dynamo.reset()
    model = Network().eval()
    compiled = torch.compile(model, backend=torch_backend.relay_layout)
    words = (
        "relay_layout compiles for inference, and this graph records gradients; call it under "
        "torch.no_grad(), or have its parameters not require them"
    )
    with pytest.raises(ModelError) as raised:
        compiled(image(2))
    assert str(raised.value) == words
    model.requires_grad_(False)
    with pytest.raises(ModelError) as raised:
        compiled(image(2).requires_grad_())
    assert str(raised.value) == words
    assert_same(compiled, model, image(2))


@torch.no_grad()
def test_what_is_written_to(compiled_shapes: list[list[int]]) -> None:
    """Statistics of batch norms in training mode, a cache, and inputs; compiled once."""

    class Writing(Network):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(4, 8))

        def forward(self, x: torch.Tensor, place: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            found = self.norm(self.convolution(x)).mean((0, 2, 3))
            self.cache[place] = found
            x[:, 1:].mul_(2)
            return self.cache.sum(0), x.sum((2, 3))

    model, twin = Writing().train(), Writing().train()
    compiled = torch.compile(model, backend=torch_backend.relay_layout)
    for call in range(3):
        given, other, place = image(2), image(2), torch.tensor([call])
        for ours, theirs in zip(compiled(given, place), twin(other, place), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(given, other)
        for (name, ours), theirs in zip(model.named_buffers(), twin.buffers(), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6, err_msg=name)
    assert len(compiled_shapes) == 1


@torch.no_grad()
def test_writing_to_shared_memory_is_refused() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, y: x.add_(1) * y, backend=torch_backend.relay_layout)
    whole = torch.ones(2, 3)
    with pytest.raises(ModelError) as raised:
        compiled(whole[0], whole)
    assert str(raised.value) == (
        "this graph writes to a tensor that shares its memory with another one that it is given; "
        "give it a clone() of one of them"
    )
    np.testing.assert_array_equal(whole, torch.ones(2, 3))
    np.testing.assert_array_equal(compiled(whole[0], whole[1]), 2 * torch.ones(3))


def test_tensors_elsewhere_are_refused() -> None:
    graph = torch.fx.symbolic_trace(nn.ReLU())
    with pytest.raises(ModelError) as raised:
        torch_backend.relay_layout(graph, [])(torch.zeros(2, device="meta"))
    assert str(raised.value) == "relay_layout's torch.compile backend takes tensors on the CPU, not on meta"


def test_the_entry_point() -> None:
    tomllib = pytest.importorskip("tomllib")
    text = (Path(relay_layout.__file__).parents[1] / "pyproject.toml").read_text()
    group = "torch_dynamo_backends"
    ((name, value),) = tomllib.loads(text)["project"]["entry-points"][group].items()
    assert name == "relay_layout"
    assert EntryPoint(name, value, group).load() is torch_backend.relay_layout


@torch.no_grad()
def test_complex_numbers() -> None:
    """Arguments, buffers and results; a conjugate is one in name alone."""
    torch._dynamo.reset()

    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("turns", torch.polar(torch.ones(4), torch.arange(4.0)))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            found = x * self.turns
            return found + y, found.abs()

    model = Turned().eval()
    compiled = torch.compile(model, backend=torch_backend.relay_layout)
    inputs = torch.randn(3, 4, dtype=torch.complex64).conj(), torch.randn(3, 4)
    for ours, theirs in zip(compiled(*inputs), model(*inputs), strict=True):
        torch.testing.assert_close(ours, theirs)
