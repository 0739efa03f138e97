"""What PyTorch decided while it exported is checked where a program runs."""

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim  # noqa: E402

import relay_layout  # noqa: E402
from relay_layout.errors import InputError, ModelError  # noqa: E402
from relay_layout.frontend.torch.extents.guards import conditions  # noqa: E402
from tests.relay_layout.frontend.torch.harness import assert_agrees, session_of  # noqa: E402

ANY = Dim.AUTO


class Padded(torch.nn.Module):
    """To rows in fours, as networks that halve an image do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[2] % 4 != 0:
            x = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[2] % 4))
        return x.mean(2)


class Nested(torch.nn.Module):
    def forward(self, x: torch.Tensor, *rest: torch.Tensor, d: dict[str, Any]) -> torch.Tensor:
        if 2 * rest[0].shape[0] > d["q"][0].shape[0] and max(x.shape[2], x.shape[3]) // 2 > 7:
            return x * rest[0].sum() + d["q"][0].sum()
        return x


class Fixed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[2] == 8 else x


def padded(tmp_path: Path, **options: Any) -> relay_layout.Session:
    return session_of(
        Padded().eval(),
        tmp_path,
        (torch.randn(2, 3, 48, 40),),
        dynamic_shapes=({0: ANY, 2: ANY, 3: ANY},),
        **options,
    )


def test_a_branch_that_was_not_taken_is_not_there(tmp_path: Path) -> None:
    session = padded(tmp_path)
    assert_agrees(session, Padded(), (torch.randn(3, 3, 12, 7),))
    with pytest.raises(InputError) as caught:
        session.run({"x": torch.zeros(2, 3, 47, 40)})
    assert str(caught.value) == (
        "the model was exported for inputs of which x.shape[2] % 4 == 0, got x.shape[2] = 47"
    )


def test_shapes_that_are_given_are_checked_at_once(tmp_path: Path) -> None:
    assert_agrees(padded(tmp_path, input_shapes={"x": (1, 3, 8, 8)}), Padded(), (torch.randn(1, 3, 8, 8),))
    with pytest.raises(ModelError) as caught:
        padded(tmp_path, input_shapes={"x": (1, 3, 9, 8)})
    assert str(caught.value) == (
        "torch program: the model was exported for inputs of which x.shape[2] % 4 == 0, got x.shape[2] = 9"
    )


def test_inputs_in_lists_and_dictionaries() -> None:
    program = torch.export.export(
        Nested(),
        (torch.randn(2, 3, 48, 48), torch.randn(5, 3)),
        {"d": {"q": [torch.randn(7, 2)]}},
        dynamic_shapes={"x": {2: ANY, 3: ANY}, "rest": ({0: ANY},), "d": {"q": [{0: ANY}]}},
        strict=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = relay_layout.from_torch(program)["main"].attrs["size_conditions"]
    assert "2 * rest_0.shape[0] > d_q_0.shape[0]" in [str(text) for text in found]
    assert any("x.shape[3]" in str(text) for text in found)


@pytest.mark.parametrize("saved", [False, True])
def test_an_extent_that_export_has_fixed_is_a_number(saved: bool, tmp_path: Path) -> None:
    example = (torch.randn(2, 1, 8, 8),)
    program = torch.export.export(Fixed(), example, dynamic_shapes=({0: ANY, 2: ANY, 3: ANY},), strict=False)
    model: Any = program
    if saved:
        model = tmp_path / "fixed.pt2"
        torch.export.save(program, model)
    session = session_of(model, tmp_path)
    assert session.inputs[0].shape[1:3] == (1, 8)
    assert_agrees(session, Fixed(), (torch.randn(3, 1, 8, 5),))
    with pytest.raises(InputError, match="expected float32"):
        session.run({session.inputs[0].name: torch.zeros(3, 1, 12, 8)})


def test_sizes_that_are_scaled_by_fractions(tmp_path: Path) -> None:
    class Half(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, :, : int(x.shape[2] * 0.5)] * 2

    session = session_of(
        Half().eval(), tmp_path, (torch.randn(2, 3, 48, 40),), dynamic_shapes=({0: ANY, 2: ANY, 3: ANY},)
    )
    assert_agrees(session, Half(), (torch.randn(1, 3, 49, 7),))
    with pytest.raises(InputError, match=r"0\.5"):
        session.run({"x": torch.zeros(1, 3, 64, 64)})


@pytest.mark.parametrize("guard", ["math.sqrt(L['x'].size()[2]) == 4", "L['y'].size()[0] == 1"])
def test_a_guard_that_cannot_be_read_is_told(guard: str) -> None:
    guards = SimpleNamespace(_guards_code=["L['x'].stride()[0] == 1", guard])
    with pytest.raises(ModelError) as caught:
        conditions(guards, ["x"], {"x": 4}, {}, "model 'm'")
    assert str(caught.value) == (
        f"model 'm' was exported for inputs of which {guard}, which cannot be checked: "
        "export it with fixed sizes"
    )
