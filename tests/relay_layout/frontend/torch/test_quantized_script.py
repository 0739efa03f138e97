"""Modules that ``torch.ao.quantization.convert`` made, and traces of them, beside PyTorch's integers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import relay_layout  # noqa: E402
from relay_layout.errors import ModelError  # noqa: E402
from tests.relay_layout.frontend.torch.harness import session_of  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
SHAPE = (2, 3, 13, 10)


class Stubs(nn.Module):
    """A network that quantizes its input and makes its result real."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = torch.ao.quantization.QuantStub(), torch.ao.quantization.DeQuantStub()


class Network(Stubs):
    """Layers, sums, products and concatenations with scales of their own, activations and pools."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 9, 3, 2, 1), nn.ReLU())
        self.second = nn.Conv2d(9, 9, 3, padding=1, groups=3, bias=False)
        self.sum, self.joined, self.product = (torch.ao.nn.quantized.FloatFunctional() for _ in range(3))
        self.hard, self.sigmoid, self.leaky = nn.Hardswish(), nn.Sigmoid(), nn.LeakyReLU(0.1)
        self.pool = nn.MaxPool2d(2)
        self.last = nn.Linear(18, 5)

    def forward(self, data: Any) -> Any:
        x = self.first(self.quant(data))
        y = self.hard(self.second(x))
        product = self.product.mul(y, self.sigmoid(x))
        z = self.leaky(self.joined.cat([self.sum.add_relu(x, y), product], 1))
        return self.dequant(self.last(nn.functional.adaptive_avg_pool2d(self.pool(z), 1).flatten(1)))


def quantized(network: nn.Module) -> Any:
    quantization = torch.ao.quantization
    network.eval()
    if isinstance(network, Network):
        quantization.fuse_modules(network.first, ["0", "1"], inplace=True)
    network.qconfig = quantization.get_default_qconfig("fbgemm")
    quantization.prepare(network, inplace=True)
    for _ in range(3):
        network(torch.randn(SHAPE))
    return quantization.convert(network, inplace=True)


@pytest.fixture(scope="module")
def network() -> Any:
    torch.manual_seed(0)
    return quantized(Network())


@pytest.mark.parametrize(
    "given",
    [
        lambda network, x: network,
        torch.jit.trace,
        lambda network, x: torch.jit.freeze(torch.jit.trace(network, x)),
    ],
    ids=["module", "trace", "frozen trace"],
)
def test_results_are_pytorchs(network: Any, given: Callable[[Any, Any], Any], tmp_path: Path) -> None:
    data = torch.randn(SHAPE)
    expected = network(data).detach().numpy()
    session = session_of(given(network, data), tmp_path, (data,))
    (result,) = session.run({session.inputs[0].name: data.numpy()}).values()
    steps = np.abs(result - expected) / network.last.scale
    assert np.ptp(expected) > 20 * network.last.scale
    assert steps.max() < 1.01


class Words(nn.Module):
    """Layers whose weights ``quantize_dynamic`` quantizes, and others between them."""

    def __init__(self, recurrent: type[nn.Module]) -> None:
        super().__init__()
        self.recurrent = recurrent(6, 5, 2, batch_first=True, bidirectional=True)
        self.first, self.last = nn.Linear(10, 12), nn.Linear(4, 3)
        self.window = nn.Conv1d(12, 4, 3)

    def forward(self, data: Any) -> Any:
        x = torch.relu(self.first(self.recurrent(data)[0]))
        return self.last(self.window(x.transpose(1, 2)).transpose(1, 2))


@pytest.mark.parametrize(
    ("recurrent", "dtype", "tolerance"),
    [
        (nn.LSTM, "float16", 1e-5),
        (nn.GRU, "float16", 1e-5),
        # Data and states of recurrent layers are not rounded to bytes.
        (nn.LSTM, "qint8", 2e-2),
        (nn.GRU, "qint8", 2e-2),
    ],
)
def test_weights_quantized_alone(
    recurrent: type[nn.Module], dtype: str, tolerance: float, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    kinds = {recurrent, nn.Linear}
    network = torch.ao.quantization.quantize_dynamic(Words(recurrent).eval(), kinds, getattr(torch, dtype))
    data = torch.randn(2, 7, 6)
    expected = network(data).detach().numpy()
    session = session_of(network, tmp_path, (data,))
    (result,) = session.run({session.inputs[0].name: data.numpy()}).values()
    np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def test_data_quantized_at_run_time(tmp_path: Path) -> None:
    torch.manual_seed(2)
    layers = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 3)).eval()
    network = torch.ao.quantization.quantize_dynamic(layers, {nn.Linear})
    data = torch.randn(5, 6)
    expected = network(data).detach().numpy()
    session = session_of(network, tmp_path, (data,))
    (result,) = session.run({session.inputs[0].name: data.numpy()}).values()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_batch_norms_of_their_own(tmp_path: Path) -> None:
    class Normed(Stubs):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))

        def forward(self, data: Any) -> Any:
            return self.dequant(self.layers(self.quant(data)))

    torch.manual_seed(3)
    network, data = quantized(Normed()), torch.randn(SHAPE)
    expected = network(data).detach().numpy()
    session = session_of(network, tmp_path, (data,))
    (result,) = session.run({session.inputs[0].name: data.numpy()}).values()
    assert np.abs(result - expected).max() < 1.01 * network.layers[1].scale


def test_a_script_with_branches() -> None:
    class Branches(Stubs):
        def forward(self, data: torch.Tensor) -> torch.Tensor:
            x = self.quant(data)
            if bool(self.dequant(x).max() > 0):
                x = torch.relu(x)
            return self.dequant(x)

    script = torch.jit.script(quantized(Branches()))
    with pytest.raises(ModelError, match=r"'prim::If' of a quantized script is not supported; give a trace"):
        relay_layout.from_torch(script, (torch.randn(SHAPE),))


def test_an_operation_whose_scale_is_not_known() -> None:
    class Sorted(Stubs):
        def forward(self, data: torch.Tensor) -> torch.Tensor:
            return self.dequant(torch.sort(self.quant(data))[0])

    traced = torch.jit.trace(quantized(Sorted()), torch.randn(SHAPE))
    with pytest.raises(ModelError, match=r"'aten::sort' of quantized tensors is not supported"):
        relay_layout.from_torch(traced, (torch.randn(SHAPE),))
