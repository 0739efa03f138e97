"""torchvision's operations on boxes and regions, beside what they compute there."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim  # noqa: E402

from relay_layout.errors import ModelError  # noqa: E402
from tests.relay_layout.frontend.torch.harness import Every, assert_agrees, session_of  # noqa: E402
from tests.relay_layout.frontend.torch.region_operations import operations  # noqa: E402


def boxes(count: int, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    centres, sizes = torch.rand(count, 2) * 20, torch.rand(count, 2) * 16
    return torch.cat([centres - sizes / 2, centres + sizes / 2], 1)


def regions(count: int, images: int) -> Any:
    return torch.cat([torch.randint(0, images, (count, 1)).float(), boxes(count) * 2], 1)


SUPPRESSED = {
    "boxes": lambda b, s: b[operations.nms(b, s, 0.5)] * 2,
    "the first few": lambda b, s: operations.nms(b, s, 0.7)[:4],
    "indices of masked ones": lambda b, s: operations.nms(b, s.masked_fill(s < 0.5, -torch.inf), 0.3),
}


def test_boxes_are_suppressed(tmp_path: Path) -> None:
    model = Every(SUPPRESSED).eval()
    scores = torch.rand(24).round(decimals=1)
    session = session_of(
        model, tmp_path, (boxes(24), scores), dynamic_shapes={"inputs": ({0: Dim.AUTO}, {0: Dim.AUTO})}
    )
    for count in (24, 7, 1):
        assert_agrees(session, model, (boxes(count, count), scores[:count]), str(count))


def test_overlaps_at_the_threshold(tmp_path: Path) -> None:
    # The single next to three tenths is above the double next to them; of halves there is one.
    pairs = torch.tensor([[0, 0, 10, 10], [0, 0, 10, 5], [50, 0, 60, 10], [50, 0, 60, 3.0]])
    model = Every({str(limit): lambda b, s, limit=limit: operations.nms(b, s, limit) for limit in (0.5, 0.3)})
    session = session_of(model.eval(), tmp_path, (pairs, torch.tensor([0.9, 0.8, 0.7, 0.6])))
    assert_agrees(session, model, (pairs, torch.tensor([0.9, 0.8, 0.7, 0.6])))


REGIONS = {
    "aligned": lambda x, r: operations.roi_align(x, r, 0.5, 2, 3, 2, True),
    "of a pixel at least": lambda x, r: operations.roi_align(x, r, 0.25, 3, 2, -1, False),
    "greatest": lambda x, r: operations.roi_pool(x, r, 0.5, 2, 3)[0],
    "by place": lambda x, r: operations.ps_roi_align(x, r, 0.5, 2, 2, 2)[0],
}


def test_regions_of_images_of_any_size(tmp_path: Path) -> None:
    model = Every(REGIONS).eval()
    shapes = {"inputs": ({axis: Dim.AUTO for axis in (0, 2, 3)}, {0: Dim.AUTO})}
    given = torch.randn(2, 4, 7, 9), regions(4, 2)
    session = session_of(model, tmp_path, given, dynamic_shapes=shapes)
    for inputs in (given, (torch.randn(3, 4, 11, 8), regions(5, 3))):
        assert_agrees(session, model, inputs)


def test_where_the_greatest_elements_are_is_refused(tmp_path: Path) -> None:
    model = Every({"": lambda x, r: operations.roi_pool(x, r, 0.5, 2, 3)[1]}).eval()
    with pytest.raises(ModelError) as raised:
        session_of(model, tmp_path, (torch.randn(1, 4, 7, 9), regions(2, 1)))
    assert str(raised.value) == (
        "node 'roi_pool': where the greatest elements of regions are is not supported"
    )


def deformed(weight: Any, bias: Any, *numbers: Any) -> Any:
    """A convolution by ``numbers``: strides, padding, dilation, groups and groups of offsets."""

    def compute(image: Any, offset: Any, mask: Any) -> Any:
        return operations.deform_conv2d(image, weight, offset, mask, bias, *numbers, True)

    return compute


def test_deformable_convolutions(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Every({"": deformed(torch.randn(6, 2, 3, 2), torch.randn(6), 2, 1, 1, 0, 1, 2, 2, 2)}).eval()
    given = torch.randn(2, 4, 5, 6), torch.randn(2, 24, 3, 4) * 2, torch.rand(2, 12, 3, 4)
    assert_agrees(session_of(model, tmp_path, given), model, given)


def test_deformable_convolutions_of_images_of_any_size(tmp_path: Path) -> None:
    torch.manual_seed(0)
    weight, bias = torch.randn(3, 2, 3, 3), torch.zeros(3)
    numbers = 1, 1, 1, 1, 1, 1, 1, 1
    model = Every(
        {"": lambda x, o: operations.deform_conv2d(x, weight, o, o[:, :0], bias, *numbers, False)}
    ).eval()
    axes = dict.fromkeys((0, 2, 3), Dim.AUTO)
    given = torch.randn(2, 2, 5, 4), torch.randn(2, 18, 5, 4)
    session = session_of(model, tmp_path, given, dynamic_shapes={"inputs": (axes, axes)})
    for inputs in (given, (torch.randn(1, 2, 3, 6), torch.randn(1, 18, 3, 6))):
        assert_agrees(session, model, inputs)
