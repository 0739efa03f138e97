"""Programs taken apart by PyTorch's own walk, where ours does not."""

import pytest

torch = pytest.importorskip("torch")

from relay_layout.errors import ModelError  # noqa: E402
from relay_layout.frontend.torch.decompositions import apart  # noqa: E402


def _through_dropout(x: "torch.Tensor") -> "torch.Tensor":
    rows = x * 2
    same = torch.nn.functional.dropout(rows, 0.5, training=False)
    same.add_(1)
    return rows + same


def _through_dropped_planes(x: "torch.Tensor") -> "torch.Tensor":
    rows = x * 2
    same = torch.nn.functional.dropout2d(rows, 0.5, training=False)
    rows.mul_(3)
    return rows + same


class Written(torch.nn.Module):
    def __init__(self, function: object) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: "torch.Tensor") -> "torch.Tensor":
        return self.function(x)


@pytest.mark.parametrize("function", [_through_dropout, _through_dropped_planes])
def test_a_change_is_seen_through_dropout(function: object) -> None:
    image = torch.rand(2, 3, 5, 7)
    program = torch.export.export(Written(function).eval(), (image,))
    before = str(program.graph)
    found = apart(program, "program")
    torch.testing.assert_close(found.module()(image), function(image))
    assert str(program.graph) == before


def test_changes_of_lists_of_tensors() -> None:
    from relay_layout import from_torch

    def change(x: "torch.Tensor") -> "torch.Tensor":
        rows = x * 2
        torch._foreach_add_([rows], 1.0)
        return rows

    with pytest.raises(ModelError, match=r"^torch program: no support for _foreach_add\.Scalar \(node"):
        from_torch(Written(change).eval(), (torch.rand(3),))
