"""Operations by extents that a program leaves open, at several sizes, beside PyTorch's numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim  # noqa: E402
from torch.nn import functional  # noqa: E402

from relay_layout.errors import ModelError  # noqa: E402
from tests.relay_layout.frontend.torch.harness import assert_agrees, session_of  # noqa: E402

Function = Callable[[torch.Tensor], torch.Tensor]

ANY = Dim.AUTO
IMAGES = [(2, 3, 48, 40), (1, 3, 20, 34), (3, 3, 33, 27)]
TEXTS = [(2, 9, 12), (3, 5, 12)]


def check(function: Function, folder: Path, sizes: list[tuple[int, ...]], axes: tuple[int, ...]) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            # A result that is a view would lie as its base does.
            return function(x) * 2

    model = Model().eval()
    session = session_of(
        model, folder, (torch.randn(sizes[0]),), dynamic_shapes=({axis: ANY for axis in axes},)
    )
    for size in sizes:
        assert_agrees(session, model, (torch.randn(size),), str(size))


def zeroed(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    x[:, :, 1:-1] = 0
    return x


def shifted(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    x[:, 1:] = x[:, :-1].clone()
    return x


def filled(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    x[:, -1] = 1
    return x


def added(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    x[:, :2].add_(1.0)
    return x


def every_second(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    x[:, ::2, 3:] = 7
    return x


def by_own_weights(x: torch.Tensor, **options: Any) -> torch.Tensor:
    """Each image by weights that its own mean scales, as one image in as many groups."""
    images, channels, height, width = x.shape
    weights = torch.arange(4.0 * channels * 3 * 2).cos().reshape(1, 4, channels, 3, 2)
    weights = (weights * x.mean((2, 3))[:, None, :, None, None]).flatten(0, 1)
    found = functional.conv2d(
        x.reshape(1, images * channels, height, width), weights, groups=images, **options
    )
    return found.reshape(images, 4, *found.shape[2:])


OF_IMAGES: dict[str, Function] = {
    "weights of each image": by_own_weights,
    "weights of each image in steps": lambda x: by_own_weights(
        x, stride=2, dilation=(1, 2), padding=(1, 0), bias=torch.ones(4).repeat(x.shape[0])
    ),
    "correlations": lambda x: functional.conv2d(
        x.flatten(0, 1)[None], x[:, :, :3, :2].flatten(0, 1)[:, None], groups=x.shape[0] * x.shape[1]
    ),
    "the second half": lambda x: x[:, :, -(x.shape[2] // 2) :],
    "without the second half": lambda x: x[:, :, : -(x.shape[2] // 2)],
    "the one in the middle": lambda x: x[:, :, -(x.shape[2] // 2)],
    "rows that are zeroed": zeroed,
    "channels that are shifted": shifted,
    "a channel that is filled": filled,
    "a part that is added to": added,
    "every second channel": every_second,
    "to the size of another": lambda x: functional.interpolate(
        functional.max_pool2d(x, 2), size=x.shape[2:], mode="bilinear"
    ),
    "to the nearest of another": lambda x: functional.interpolate(
        functional.max_pool2d(x, 2), size=x.shape[2:], mode="nearest"
    ),
    "to a size that is computed": lambda x: functional.interpolate(x, size=(x.shape[2] * 2, x.shape[3] + 3)),
    "to half the size": lambda x: functional.interpolate(x, scale_factor=0.5),
    "to a fraction of the size": lambda x: functional.interpolate(x, scale_factor=0.123),
    "to a quarter of the size": lambda x: functional.interpolate(x, scale_factor=0.25, mode="bilinear"),
    "to a size": lambda x: functional.interpolate(x, size=(20, 30)),
    "padded to eights": lambda x: functional.pad(x, (0, -x.shape[3] % 8, 0, -x.shape[2] % 8), value=0.5),
    "padded before": lambda x: functional.pad(x, (x.shape[2] // 4, 1)),
    "reflected to eights": lambda x: functional.pad(x, (0, -x.shape[3] % 8, 0, -x.shape[2] % 8), "reflect"),
    "reflected on both sides": lambda x: functional.pad(
        x, (x.shape[3] // 4, 1, 2, x.shape[2] // 3), "reflect"
    ),
    "the edge to eights": lambda x: functional.pad(x, (1, -x.shape[3] % 8, 0, -x.shape[2] % 8), "replicate"),
    "around": lambda x: functional.pad(x, (x.shape[3] // 2, 0, 0, x.shape[2]), "circular"),
    "halves": lambda x: x.chunk(2, 2)[1],
    "the best few": lambda x: x.topk(min(30, x.shape[2]), 2, largest=False)[0],
    "places of the best few": lambda x: x.topk(min(30, x.shape[3]))[1],
    "parts of their own sizes": lambda x: torch.split(
        torch.cat([x.mean(3), x.mean(2)], 2), [x.shape[2], x.shape[3]], 2
    )[1],
    "deviations": lambda x: x.std((2, 3)),
    "variances": lambda x: x.var(2, correction=2, keepdim=True),
}

OF_TEXTS: dict[str, Function] = {
    "rows by places": lambda x: x[torch.arange(x.shape[0])[:, None], torch.arange(x.shape[1])],
    "the last ones": lambda x: x[torch.arange(x.shape[0]), -1],
    "as many as the batch": lambda x: torch.cat([torch.ones(1, 1, 12).repeat(x.shape[0], 1, 1), x], 1),
    "every few words": lambda x: x[:, 1 :: x.shape[1] // 2],
    "places by an open step": lambda x: torch.arange(1, x.shape[1], x.shape[1] // 2) + x.sum(),
    "rows that are repeated": lambda x: x.repeat(2, x.shape[0], 1),
    "places by steps down": lambda x: torch.arange(x.shape[1] - 1, -x.shape[1], -2) + x.sum(),
    "the first of a table": lambda x: x + torch.arange(16.0)[: x.shape[1]].view(1, -1, 1),
    "every second of the first": lambda x: x.sum() * torch.arange(16.0)[: x.shape[1] : 2],
    "the last of a table": lambda x: x.sum() * torch.arange(16.0)[x.shape[1] :],
    "all but the last of a table": lambda x: x.sum() * torch.arange(16.0)[: -x.shape[1]],
    "all of a table that is shorter": lambda x: x.sum() * torch.arange(4.0)[1 : x.shape[1] : 2],
}


@pytest.mark.parametrize("name", OF_IMAGES)
def test_images(name: str, tmp_path: Path) -> None:
    check(OF_IMAGES[name], tmp_path, IMAGES, (0, 2, 3))


@pytest.mark.parametrize("name", OF_TEXTS)
def test_texts(name: str, tmp_path: Path) -> None:
    check(OF_TEXTS[name], tmp_path, TEXTS, (0, 1))


def test_a_view_of_what_attention_gives(tmp_path: Path) -> None:
    """As GPT-2 has it: by PyTorch's own rules attention lies otherwise than as a whole."""

    def attention(x: torch.Tensor) -> torch.Tensor:
        heads = x.view(2, 9, 3, 4).transpose(1, 2)
        found = functional.scaled_dot_product_attention(heads, heads, heads)
        return found.transpose(1, 2).reshape(2, 9, 12).view(-1, 12)

    check(attention, tmp_path, TEXTS[:1], ())


def test_a_size_that_a_loop_settles(tmp_path: Path) -> None:
    """As state space models have it: the loop is written out, and the view is still by the size."""

    def steps(x: torch.Tensor) -> torch.Tensor:
        rows = x.view(x.shape[0] * x.shape[1], 12)
        return sum(x[:, step] for step in range(x.shape[1])) + rows.sum(0)

    check(steps, tmp_path, [(2, 9, 12), (3, 9, 12)], (0, 1))


def test_views_of_several_open_extents(tmp_path: Path) -> None:
    """They are compared as they are written, as in products by einsum."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.einsum("ij,kj->ik", x, y) * 2

    model, shapes = Model().eval(), ({0: ANY, 1: ANY}, {0: ANY, 1: ANY})
    session = session_of(model, tmp_path, (torch.randn(3, 4), torch.randn(5, 4)), dynamic_shapes=shapes)
    assert_agrees(session, model, (torch.randn(2, 6), torch.randn(7, 6)))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda x: functional.interpolate(x, scale_factor=0.7),
            "a resize of open extents by 0.7 is not supported; give it a size",
        ),
        (
            lambda x: functional.pad(x, (0, 0, -(x.shape[2] // 4), 0)),
            "cutting by widths that are not known is not supported",
        ),
    ],
    ids=["a fraction", "cutting"],
)
def test_what_is_refused(function: Function, message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message):
        check(function, tmp_path, IMAGES, (0, 2, 3))
