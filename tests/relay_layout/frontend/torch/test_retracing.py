"""Programs that are taken apart in one walk, beside PyTorch's own ``run_decompositions``."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from relay_layout.frontend.torch.retracing import Unsuited, retraced  # noqa: E402
from relay_layout.frontend.torch.rules.reductions import RULES  # noqa: E402

OPEN = torch.export.Dim.AUTO


class Network(torch.nn.Module):
    """Convolutions with norms, changes in place that nothing else sees, a residual and a flattened image."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.second = torch.nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = torch.nn.functional.relu(self.norm(self.first(x)), inplace=True)
        after = self.second(rows)
        after += rows
        return torch.nn.functional.dropout(after, training=False).flatten(2).transpose(1, 2)


class Written(torch.nn.Module):
    """What ``change`` does in place to what a function gives of the input."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change = change

    def forward(self, x: torch.Tensor) -> Any:
        return self.change(x)


def exported(model: Any, *extents: int, dynamic: Any = ({0: OPEN, 2: OPEN, 3: OPEN},)) -> Any:
    return torch.export.export(model.eval(), (torch.rand(*extents),), dynamic_shapes=dynamic, strict=False)


def taken_apart(program: Any) -> Any:
    return retraced(program, torch.export.default_decompositions().materialize())


def operations(program: Any) -> list[str]:
    return sorted(str(node.target) for node in program.graph.nodes if hasattr(node.target, "_schema"))


@pytest.fixture(scope="module")
def network() -> Any:
    torch.manual_seed(3)
    return exported(Network(), 2, 3, 18, 22)


@pytest.fixture(scope="module")
def found(network: Any) -> Any:
    return taken_apart(network)


def test_gives_the_operations_of_pytorch(network: Any, found: Any) -> None:
    own = [name for name in operations(found) if "sym_" not in name]
    theirs = [name for name in operations(network.run_decompositions()) if "sym_" not in name]
    assert own == theirs


def test_computes_the_same_for_other_sizes(network: Any, found: Any) -> None:
    image = torch.rand(3, 3, 31, 17)
    torch.testing.assert_close(found.module()(image), network.module()(image))


def test_leaves_the_program_as_it_was(network: Any) -> None:
    before = str(network.graph)
    taken_apart(network)
    assert str(network.graph) == before


def test_sizes_are_not_read_from_memory(found: Any) -> None:
    assert not {"aten.sym_stride.int", "aten.sym_numel.default"} & {*operations(found)}


def test_each_size_is_computed_once(found: Any) -> None:
    sizes = [node.meta["val"] for node in found.graph.nodes if node.op == "call_function"]
    forms = [size.node.expr.expand() for size in sizes if isinstance(size, torch.SymInt)]
    assert len(forms) == len({*forms}) > 2


def test_does_not_compute_what_stays() -> None:
    calls = []

    @torch.library.custom_op("relay_layout_tests::kept", mutates_args=())
    def kept(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @kept.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        return torch.empty_like(x)

    program = exported(Written(lambda x: kept(x).flatten()), 2, 3, 5, 7)
    calls.clear()
    taken_apart(program)
    assert not calls


def _through_a_view(x: torch.Tensor) -> torch.Tensor:
    rows = x * 2
    view = rows.transpose(2, 3)
    rows.add_(1)
    return view


class NormTwice(torch.nn.Module):
    """What a norm is of is read after a change of the norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x * 2
        changed = self.norm(rows).relu_()
        whole = changed.mean((2, 3), keepdim=True)
        changed.add_(1)
        return changed + rows + whole


def test_a_norm_gives_a_new_tensor() -> None:
    model, image = NormTwice(), torch.randn(2, 3, 5, 7)
    found = taken_apart(exported(model, 2, 3, 5, 7))
    torch.testing.assert_close(found.module()(image), model(image))


def test_a_mean_of_what_has_its_channels_last() -> None:
    def pooled(x: torch.Tensor) -> torch.Tensor:
        rows = (x * 2).to(memory_format=torch.channels_last)
        return torch.nn.functional.adaptive_avg_pool2d(rows, 1)

    image = torch.randn(3, 3, 4, 9)
    table = {**torch.export.default_decompositions().materialize(), **RULES}
    found = retraced(exported(Written(pooled), 2, 3, 5, 7), table)
    torch.testing.assert_close(found.module()(image), pooled(image))


def _after_dropout(x: torch.Tensor) -> torch.Tensor:
    rows = x * 2
    same = torch.nn.functional.dropout(rows, training=False)
    rows.add_(1)
    return same


def test_a_change_of_what_dropout_gives_back_is_refused_or_seen() -> None:
    """PyTorch 2.14 writes which tensor is changed; before, it is left to be seen."""
    image = torch.rand(2, 3, 5, 7)
    try:
        found = taken_apart(exported(Written(_after_dropout), 2, 3, 5, 7))
    except Unsuited:
        return
    torch.testing.assert_close(found.module()(image), _after_dropout(image))


@pytest.mark.parametrize(
    "change",
    [_through_a_view, lambda x: x.add_(1), lambda x: (x * 2).half().add_(x)],
    ids=["view", "input", "types"],
)
def test_changes_that_others_see(change: Any) -> None:
    with pytest.raises(Unsuited):
        taken_apart(exported(Written(change), 2, 3, 5, 7))


def test_sizes_that_the_data_decide() -> None:
    with pytest.raises(Unsuited):
        taken_apart(exported(Written(lambda x: x[x > 0]), 2, 3, 5, 7))
