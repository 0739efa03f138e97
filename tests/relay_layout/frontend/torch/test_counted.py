"""Operations that give as many elements as the data say, beside PyTorch's numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim  # noqa: E402
from torch.nn import functional  # noqa: E402

from relay_layout.errors import ModelError  # noqa: E402
from tests.relay_layout.frontend.torch.harness import Every, assert_agrees, session_of  # noqa: E402

SHAPE = (2, 6, 7)


def doubled(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[y > 0] = y[y > 0] * 2
    return y


def doubled_rows(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, y[0, :, 0] > 0] = y[:, y[0, :, 0] > 0] * 2
    return y


def one_row(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, y[0, :, 0] > 0] = y[:, :1] * 2
    return y


def best_of_each(x: torch.Tensor) -> torch.Tensor:
    """A detector's best boxes of two images, each moved by its place."""
    boxes, places = [], []
    for scores in (x[0][x[0] > 0], x[1][x[1] > 0]):
        number = torch.sym_min(5, scores.shape[0])
        best, place = scores.topk(number)
        boxes.append(torch.stack([best, best * 2], dim=-1).reshape(number, 2))
        places.append(place)
    return torch.cat(boxes) + torch.cat(places)[:, None]


def aligned(x: torch.Tensor) -> torch.Tensor:
    """Frames of speech, each of a letter that lasts as long as its number says."""
    durations = x[0, :, 0].abs().mul(3).round().long()
    letters = torch.repeat_interleave(durations)
    alignment = torch.zeros(durations.shape[0], letters.shape[0])
    alignment[letters, torch.arange(letters.shape[0])] = 1
    frames = x[0].transpose(0, 1) @ alignment
    return functional.conv1d(frames[None], torch.ones(2, 7, 3), padding=1).relu()


LISTED: dict[str, Callable[..., Any]] = {
    "places": lambda x: torch.nonzero(x > 1),
    "places of numbers": lambda x: x.round().nonzero(),
    "places by dimension": lambda x: torch.where(x > 1)[1],
    "elements": lambda x: x[x > 0],
    "elements by masked_select": lambda x: x.masked_select(x < 0),
    "rows": lambda x: x[0][x[0, :, 0] > 0],
    "rows in the middle": lambda x: x[:, x[0, :, 0] > 0],
    "a mask beside a number": lambda x: x[:, x[0, :, 0] > 0, 0],
    "a mask of two dimensions": lambda x: x[x[:, :, 0] > 0],
    "by places": lambda x: x[0][torch.nonzero(x[0, :, 1] > 0)[:, 0]],
}
COMPUTED: dict[str, Callable[..., Any]] = {
    "of rows": lambda x: functional.linear(x[0][x[0, :, 0] > 0], torch.ones(5, 7)).softmax(0),
    "a sum": lambda x: x[x > 0].exp().sum(),
    "joined": lambda x: torch.cat([x[0][x[0, :, 0] > 0], x[1]]).relu() + 1,
    "joined twice": lambda x: torch.cat([x[0][x[0, :, 0] > 0], x[1][x[1, :, 0] > 0]]) @ torch.ones(7, 2),
    "by one mask that is computed twice": lambda x: x[x > 0] * x.exp()[x > 0],
    "by how many there are": lambda x: x[x > 0] / x[x > 0].shape[0],
    "the best of each, joined": best_of_each,
    "written": doubled,
    "written rows": doubled_rows,
    "one row written": one_row,
    "added": lambda x: torch.zeros(7).index_add(0, torch.nonzero(x[0] > 0)[:, 1], x[0][x[0] > 0]),
    "scattered in their order": lambda x: x.masked_scatter(x[:, :, :1] > 0, x.flip(0) * 2),
    "repeated": lambda x: x.repeat_interleave(x[0, :, 0].abs().mul(3).round().int(), dim=1) * 2,
    "letters and their frames": aligned,
    "repeated to a size": lambda x: x.repeat_interleave(
        (torch.arange(x.shape[1]) % 2).mul(3), dim=1, output_size=x.shape[1] // 2 * 3
    ),
    "numbers of each": lambda x: torch.bincount(x.abs().mul(3).long().flatten()) + 1,
    "weights of each": lambda x: torch.bincount(x[0, :, 0].abs().long(), x[0, :, 1], minlength=9) + 1,
    "none": lambda x: x[x > 100],
    "none written": lambda x: x.index_put((x > 100,), x[x > 100] + 1),
}
DISTINCT: dict[str, Callable[..., Any]] = {
    "elements": lambda x: torch.unique(x.round()),
    "elements that are computed": lambda x: torch.unique(x[x > 0].round()) * 2,
    "which of them each is": lambda x: torch.unique(x.round(), return_inverse=True)[1],
    "how often there is each": lambda x: torch.unique(x.long(), return_counts=True)[1],
    "rows": lambda x: torch.unique(x[0, :, :1].round(), dim=0),
    "columns": lambda x: torch.unique(x[:, :2].round(), dim=-1, return_inverse=True)[1],
    "how often there is each row": lambda x: torch.unique(x[0] > 0, dim=0, return_counts=True)[1],
    "runs": lambda x: torch.unique_consecutive(x.round()),
    "which run each is in": lambda x: torch.unique_consecutive(x.round(), return_inverse=True)[1],
    "how long each run is": lambda x: torch.unique_consecutive(x.round(), return_counts=True)[1],
    "runs of rows": lambda x: torch.unique_consecutive(x[0, :, :2].round(), dim=0),
}


@pytest.mark.parametrize("functions", [LISTED, COMPUTED, DISTINCT], ids=["listed", "computed", "distinct"])
@pytest.mark.parametrize("axes", [(), (0, 1)], ids=["fixed", "open"])
def test_as_many_as_the_data_say(functions: dict[str, Any], axes: tuple[int, ...], tmp_path: Path) -> None:
    model = Every(functions).eval()
    torch.manual_seed(0)
    shapes = {"inputs": ({axis: Dim.AUTO for axis in axes},)}
    session = session_of(model, tmp_path, (torch.randn(SHAPE),), dynamic_shapes=shapes)
    for shape in (SHAPE, (3, 9, 7)) if axes else (SHAPE, SHAPE):
        assert_agrees(session, model, (torch.randn(shape),), str(list(functions)))


def refused(function: Callable[[torch.Tensor], Any], shape: tuple[int, ...], folder: Path) -> str:
    with pytest.raises(ModelError) as raised:
        session_of(Every({"": function}).eval(), folder, (torch.ones(shape),))
    return str(raised.value)


def test_places_in_a_scalar_are_refused(tmp_path: Path) -> None:
    message = refused(torch.nonzero, (), tmp_path)
    assert message == (
        "node 'nonzero': places in a tensor without dimensions are not supported: give it one, by reshape(1)"
    )


def test_numbers_of_elements_that_may_differ_are_refused(tmp_path: Path) -> None:
    assert refused(lambda x: x[0][x[0] > 0] + x[1][x[1] > 0], SHAPE, tmp_path) == (
        "torch program: the shape of output 0 is not known: it is computed of tensors whose extents need not "
        "be equal; give them extents that are, such as by masks that are computed once"
    )


def test_a_mask_beside_two_places_is_refused(tmp_path: Path) -> None:
    message = refused(
        lambda x: x.index_put((x[:, 0, 0] > 0, torch.tensor([0, 2])), torch.tensor(5.0)), SHAPE, tmp_path
    )
    assert message.startswith("node 'index_put': indexing by ")
    assert message.endswith(
        " and by 2 beside them is not supported, since only the data say whether they are as many; "
        "index by one after the other"
    )
