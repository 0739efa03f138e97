"""Programs that count rows of a table from their inputs' sizes, of which a table has only so many."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim  # noqa: E402

from relay_layout.errors import InputError  # noqa: E402
from relay_layout.frontend.torch import from_torch  # noqa: E402
from relay_layout.graph.border import size_conditions  # noqa: E402
from tests.relay_layout.frontend.torch.harness import assert_agrees, session_of  # noqa: E402

ROWS = 16


class Positions(torch.nn.Module):
    """Words by their places behind those that came before."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(ROWS, 8)

    def places(self, words: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        first = before.shape[1]
        return torch.arange(first, first + words.shape[1])

    def forward(self, words: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        return words + self.table(self.places(words, before))[None] + before.sum()


class EverySecond(Positions):
    """Of places two apart the last is not one less than where they end."""

    def places(self, words: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        return torch.arange(0, words.shape[1] * 2, 2)[: words.shape[1]]


class FromData(Positions):
    """Places that only the data tell."""

    def places(self, words: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        return torch.arange(words.shape[1]) * before[0, 0].to(torch.int64)


def words(number: int, before: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(2, number, 8), torch.zeros(1, before)


DYNAMIC = ({1: Dim("t", min=1, max=99)}, {1: Dim("p", min=1, max=99)})


def test_more_places_than_the_table_has_are_refused(tmp_path: Path) -> None:
    model = Positions().eval()
    session = session_of(model, tmp_path, words(3, 4), dynamic_shapes=DYNAMIC)
    for number, before in ((3, 4), (ROWS - 1, 1), (1, ROWS - 1)):
        assert_agrees(session, model, words(number, before))
    names = [spec.name for spec in session.inputs]
    with pytest.raises(InputError) as error:
        session.run(dict(zip(names, words(10, 7), strict=True)))
    assert str(error.value) == (
        "the model was exported for inputs of which before.shape[1] + words.shape[1] <= 16, "
        "got before.shape[1] = 7, words.shape[1] = 10"
    )


@pytest.mark.parametrize("kind", [EverySecond, FromData])
def test_other_places_ask_for_nothing(kind: type[Positions]) -> None:
    module = from_torch(kind().eval(), words(3, 4), dynamic_shapes=DYNAMIC)
    assert not [text for text in size_conditions(module["main"]) if str(ROWS) in text]
