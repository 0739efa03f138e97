"""Operations of constants alone become constants when a PyTorch program is imported."""

from pathlib import Path

import pytest
from tvm import relax

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from relay_layout import from_torch  # noqa: E402
from tests.relay_layout.frontend.torch.harness import assert_agrees, session_of  # noqa: E402

IMAGE = torch.randn(1, 3, 6, 6, generator=torch.Generator().manual_seed(0))


class Standardized(nn.Conv2d):
    """A convolution by standardized weights (Qiao et al., 2019), as by a batch norm of them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = self.weight.reshape(1, self.out_channels, -1)
        weight = functional.batch_norm(flat, None, None, training=True, momentum=0.0).reshape_as(self.weight)
        return functional.conv2d(x, weight, self.bias, padding=1)


class Positioned(nn.Module):
    """What is added comes from a table by constant places, and from a grid."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(9, 3))
        self.register_buffer("places", torch.tensor([[0, 4], [8, 2]]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bias = self.table[self.places].permute(2, 0, 1).repeat(1, 3, 3)
        return x + bias.unsqueeze(0) + torch.linspace(0, 1, 6).softmax(0)


def operators_of(model: nn.Module) -> list[str]:
    module = from_torch(model.eval(), (IMAGE,))
    calls = [binding.value for block in module["main"].body.blocks for binding in block.bindings]
    return [call.op.name.removeprefix("relax.") for call in calls if isinstance(call, relax.Call)]


@pytest.mark.parametrize(
    ("model", "operators"),
    [
        (nn.Sequential(Standardized(3, 8, 3, bias=False)), ["nn.conv2d"]),
        (Positioned(), ["add", "add"]),
    ],
)
def test_constants_are_computed_at_once(model: nn.Module, operators: list[str], tmp_path: Path) -> None:
    assert operators_of(model) == operators
    assert_agrees(session_of(model, tmp_path, (IMAGE,)), model, (IMAGE,))


def test_a_program_that_is_given_stays_as_it_is() -> None:
    class Lifted(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.tensor([1.0, 2.0]).exp().sum()

    program = torch.export.export(Lifted().eval(), (IMAGE,))
    constants, nodes = list(program.constants), len(list(program.graph.nodes))
    from_torch(program)
    assert list(program.constants) == constants and len(list(program.graph.nodes)) == nodes


def test_a_constant_of_two_names_leaves_others_as_they_are(tmp_path: Path) -> None:
    class Holder(nn.Module):
        def __init__(self, strides: torch.Tensor) -> None:
            super().__init__()
            self.strides = strides

    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.grid = torch.arange(6.0)
            strides = torch.linspace(8, 32, 6)
            self.one, self.other = Holder(strides), Holder(strides)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + self.grid) * (self.one.strides / 2)

    assert_agrees(session_of(Head().eval(), tmp_path, (IMAGE,)), Head(), (IMAGE,))


def test_an_output_may_be_a_constant(tmp_path: Path) -> None:
    class Constant(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.relu(), torch.arange(6.0).reshape(2, 3) * 2

    assert_agrees(session_of(Constant().eval(), tmp_path, (IMAGE,)), Constant(), (IMAGE,))


def test_what_is_large_is_not_made() -> None:
    class Large(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.zeros(1).expand(2**29)[:1]

    assert "broadcast_to" in operators_of(Large())


class Narrow(nn.Conv2d):
    """Computes in bfloat16, of whole numbers, which it has all of."""

    def __init__(self) -> None:
        super().__init__(3, 4, 3, bias=False)
        self.weight.data = torch.arange(108.0).reshape(4, 3, 3, 3) % 5 - 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.bfloat16()).float()


def test_weights_of_bfloat16_may_be_channels_last(tmp_path: Path) -> None:
    model = Narrow().to(torch.bfloat16, memory_format=torch.channels_last).eval()
    assert model.weight.stride() == (27, 1, 9, 3)
    whole = (IMAGE * 4).round().to(memory_format=torch.channels_last)
    assert_agrees(session_of(model, tmp_path, (whole,)), model, (whole,))
