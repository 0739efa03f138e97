"""Random numbers of PyTorch's programs: the same in each call, and distributed as PyTorch's own."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim  # noqa: E402

from tests.relay_layout.frontend.torch.harness import Every, Functions, session_of  # noqa: E402

SHAPE = 200, 300
LIKELY = torch.linspace(0.1, 0.9, 300).expand(SHAPE).contiguous()
STEPS = np.linspace(0.01, 0.99, 30)

DRAWN: Functions = {
    "rand": lambda x: torch.rand(SHAPE),
    "rand_like": torch.rand_like,
    "doubles": lambda x: torch.rand(SHAPE, dtype=torch.float64),
    "randn": lambda x: torch.randn(*SHAPE),
    "randn_like": torch.randn_like,
    "normal around numbers": lambda x: torch.normal(x, 2.0),
    "normal of deviations": lambda x: torch.normal(1.0, x),
    "normal of both": lambda x: torch.normal(x * 3, x),
    "normal of a shape": lambda x: torch.normal(1.0, 3.0, SHAPE),
    "normal in place": lambda x: torch.empty_like(x).normal_(2, 0.5),
    "uniform in place": lambda x: torch.empty_like(x).uniform_(-2, 3),
    "exponential": lambda x: torch.empty_like(x).exponential_(2.0),
    "gumbel": lambda x: torch.nn.functional.gumbel_softmax(x.reshape(-1, 4)).reshape(SHAPE),
    "bernoulli": torch.bernoulli,
    "randint": lambda x: torch.randint(-3, 4, SHAPE),
    "randint_like": lambda x: torch.randint_like(x, 7),
    "randint_like from": lambda x: torch.randint_like(x, 2, 7),
}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    session = session_of(Every(DRAWN).eval(), tmp_path_factory.mktemp("drawn"), (LIKELY,))
    first, second = (session.run({session.inputs[0].name: LIKELY.numpy()}) for _ in range(2))
    for one, other in zip(first.values(), second.values(), strict=True):
        np.testing.assert_array_equal(one, other)
    return dict(zip(DRAWN, first.values(), strict=True))


@pytest.mark.parametrize("name", DRAWN)
def test_distribution(name: str, drawn: dict[str, np.ndarray]) -> None:
    """Quantiles, the mean of each column, and neighbours are those of what PyTorch draws."""
    torch.manual_seed(0)
    due, found = DRAWN[name](LIKELY).numpy(), drawn[name]
    assert found.shape == due.shape
    assert found.dtype == due.dtype
    found, due = found.astype("float64"), due.astype("float64")
    spread = due.std()
    below = np.quantile(due, STEPS)
    np.testing.assert_allclose(
        [(found <= step).mean() for step in below], [(due <= step).mean() for step in below], atol=0.015
    )
    np.testing.assert_allclose(found.mean(0), due.mean(0), atol=0.45 * spread)
    pairs = [np.corrcoef(one[:, :-1].ravel(), one[:, 1:].ravel())[0, 1] for one in (found, due)]
    assert pairs[0] == pytest.approx(pairs[1], abs=0.02)


def test_no_two_are_alike(drawn: dict[str, np.ndarray]) -> None:
    assert abs(np.corrcoef(drawn["rand"].ravel(), drawn["rand_like"].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(drawn["randn"].ravel(), drawn["randn_like"].ravel())[0, 1]) < 0.02


@pytest.mark.parametrize("draw", [torch.randn_like, lambda x: torch.rand(x.shape[0], 3)])
def test_as_many_as_there_are_rows(draw: Callable[[torch.Tensor], torch.Tensor], tmp_path: Path) -> None:
    model = Every({"drawn": draw}).eval()
    session = session_of(model, tmp_path, (torch.zeros(4, 3),), dynamic_shapes=(({0: Dim.AUTO},),))
    for rows in (2, 5):
        (found,) = session.run({session.inputs[0].name: np.zeros((rows, 3), "float32")}).values()
        assert found.shape == (rows, 3)
        assert len(np.unique(found)) == rows * 3
