"""Deformable convolution against its definition."""

import numpy as np
import pytest
from relay_harness import close, evaluate
from window_reference import axes

from relay_layout.errors import ModelError
from relay_layout.relay.importing import from_tree
from relay_layout.relay.syntax import read_text

RNG = np.random.default_rng(8)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def deformable(
    x: np.ndarray, offset: np.ndarray, w: np.ndarray, deformable_groups: int, padding: int
) -> np.ndarray:
    """Strides of 1; bilinear samples of an image with zeros around it; groups as the weight has them."""
    (batch, channels, height, width), (outputs, inputs, rows, columns) = x.shape, w.shape
    groups, result = channels // inputs, np.zeros((batch, outputs, *offset.shape[2:]))
    for n, y0, x0, r, s, c in np.ndindex(batch, *offset.shape[2:], rows, columns, channels):
        place = 2 * ((c // (channels // deformable_groups)) * rows * columns + r * columns + s)
        row = y0 + r - padding + offset[n, place, y0, x0]
        column = x0 + s - padding + offset[n, place + 1, y0, x0]
        if not (0 <= row < height and 0 <= column < width):
            continue
        value = 0.0
        for i, j in np.ndindex(2, 2):
            y, x1 = int(row) + i, int(column) + j
            if y < height and x1 < width:
                value += (1 - abs(row - y)) * (1 - abs(column - x1)) * x[n, c, y, x1]
        own = slice((c // inputs) * (outputs // groups), (c // inputs + 1) * (outputs // groups))
        result[n, own, y0, x0] += value * w[own, c % inputs, r, s]
    return result


def test_deformable() -> None:
    x, w, grouped = normal(1, 4, 5, 4), normal(4, 4, 2, 3), normal(4, 2, 2, 3)
    offset = normal(1, 2 * 2 * 2 * 3, 6, 4) * 2
    single = normal(1, 2 * 2 * 3, 4, 2)
    results = evaluate(
        """(nn.deformable_conv2d(%x, %o, %w, padding=[1, 1], deformable_groups=2),
            nn.deformable_conv2d(%x, %s, %w, channels=4, kernel_size=[2, 3]),
            nn.deformable_conv2d(%x, %o, %g, padding=[1], deformable_groups=2, groups=2),
            nn.deformable_conv2d(%n, %p, %h, padding=[1, 1], deformable_groups=2, data_layout="NHWC",
                                 kernel_layout="HWIO"))""",
        x=x,
        o=offset,
        w=w,
        s=single,
        g=grouped,
        n=axes(x, "NCHW", "NHWC"),
        p=axes(offset, "NCHW", "NHWC"),
        h=axes(w, "OIHW", "HWIO"),
    )
    close(results[0], deformable(x, offset, w, 2, 1))
    close(results[1], deformable(x, single, w, 1, 0))
    close(results[2], deformable(x, offset, grouped, 2, 1))
    close(results[3], axes(deformable(x, offset, w, 2, 1), "NCHW", "NHWC"))


@pytest.mark.parametrize(
    ("shape", "attributes", "message"),
    [
        ("(1, 18, 6, 5)", "", "the offset is 1, 18, 6, 5 (N, C, H, W), not 1, 18, 6, 6"),
        ("(1, 18, 6, 6)", ", deformable_groups=2", "2 deformable groups do not divide 3 input channels"),
        (
            "(1, 18, 6, 6)",
            ", groups=3",
            "3 input channels in 3 groups do not fit a weight with 3 inputs",
        ),
    ],
)
def test_wrong_offsets(shape: str, attributes: str, message: str) -> None:
    """A shape that is accepted here would be read past its end when it runs."""
    text = f"""def @main(%x: Tensor[(1, 3, 8, 8), float32], %o: Tensor[{shape}, float32],
        %w: Tensor[(4, 3, 3, 3), float32]) {{ nn.deformable_conv2d(%x, %o, %w{attributes}) }}"""
    with pytest.raises(ModelError) as caught:
        from_tree(read_text(text, "test"))
    assert message in str(caught.value)
