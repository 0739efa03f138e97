"""Operations that are expressed by others, on numbers that show their rules, beside PyTorch's results."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tests.relay_layout.frontend.torch.harness import Every, Functions, assert_agrees, session_of  # noqa: E402

NUMBERS = torch.tensor([[-2.5, -1.0, -0.0, 0.0], [0.25, 1.0, 3.0, 7.5]])
WHOLE = torch.tensor([[-3, -1, 0, 1], [2, 3, 5, 7]])
MODE = "use_mm_for_euclid_dist_if_necessary"
NAN = torch.tensor([math.nan, -2.0, 0.5, 9.0, math.nan, math.inf])

INTEGERS: Functions = {
    "exp": torch.exp,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "sine": torch.sin,
    "reciprocal": torch.reciprocal,
    "arc tangent": lambda x: torch.atan2(x, x + 2),
    "square": torch.square,
    "cube": lambda x: x**3,
    "powers": lambda x: torch.tensor([[2, 3, 0, -1]]) ** x.abs(),
    "large cubes": lambda x: (x + 300001) ** 3,
    "overflowing cubes": lambda x: (x + 2000).int() ** 3,
    "powers that overflow": lambda x: x ** torch.tensor([[40, 41, 64, 100]]),
    "inverse powers": lambda x: x ** torch.tensor([[-1, -2, -3, -4]]),
    "inverse squares": lambda x: x.clamp(-1, 1).masked_fill(x == 0, 1) ** torch.tensor(-2),
    "above a fraction": lambda x: (x >= 0.5) & (x < 2.5) & (x != 0.5),
    "remainders of fractions": lambda x: x % 2.5 + torch.fmod(x, 1.5),
    "remainders of a number": lambda x: 7 % (x.abs() + 1),
    "remainders of a fraction": lambda x: 7.5 % (x.abs() + 1),
    "powers of two": lambda x: 2 ** x.clamp(min=0),
    "negative bytes": lambda x: -(x.to(torch.uint8)),
    "shifted": lambda x: (x << 2) + (x >> 1) + torch.bitwise_left_shift(x.abs(), 1),
    "clamped by tensors": lambda x: torch.clamp(x, WHOLE - 4, WHOLE[0] + 1),
    "clamped below by a tensor": lambda x: torch.clamp_min(x, torch.tensor(1)),
    "any": lambda x: x.any(),
    "any along": lambda x: torch.stack([x.any(1), x.any(1, keepdim=True)[:, 0]]),
    "any of bytes": lambda x: x.to(torch.uint8).any(1),
    "any of nothing": lambda x: x[:, 4:].any(1),
    "largest of nothing and a number": lambda x: torch.maximum(x, torch.tensor(1.5)),
    "average": lambda x: F.avg_pool2d(x[None, None].abs(), 2),
    "searched": lambda x: torch.searchsorted(torch.tensor([-1, 0, 2, 2, 6]), x),
    "searched from the right": lambda x: torch.searchsorted(x, x.flip(1), right=True, out_int32=True),
}
TRUTHS: Functions = {
    "equal": lambda x: (x > 0) == (x < 2),
    "not equal": lambda x: (x > 0) != (x < 2),
    "equal to a number": lambda x: (x > 0) == 0,
    "equal to another number": lambda x: (x > 0) == 2,
    "beside reals": lambda x: (x > 0) <= x,
    "above": lambda x: (x > 0) > (x < 2),
    "above a number": lambda x: (x > 0) > -1,
    "largest": lambda x: (x > 0).max(),
    "largest along": lambda x: (x > 0).max(1)[0],
    "least along": lambda x: (x > 0).amin(0),
    "larger": lambda x: torch.maximum(x > 0, x < 0),
    "sign": lambda x: torch.sign(x > 0),
    "squares": lambda x: torch.square(x > 0),
    "no number": lambda x: torch.isnan(x > 0),
    "counted": lambda x: torch.count_nonzero(x > 0),
    "masked": lambda x: x.masked_fill((x > 0) == 0, 5.0),
    "sorted": lambda x: torch.sort((x > 0).int(), dim=1, stable=True)[0],
}
REALS: Functions = {
    "sign bit": torch.signbit,
    "copied sign": lambda x: torch.copysign(x.flip(1) + 0.5, x),
    "copied sign of doubles": lambda x: torch.copysign(x, x.flip(1).double()),
    "angle": torch.angle,
    "angle of doubles": lambda x: torch.angle(x.double()),
    "angle of halves": lambda x: torch.angle(x.half()),
    "hypotenuse of infinity": lambda x: torch.hypot(x * math.inf, x.flip(1)),
    "searched rows": lambda x: torch.searchsorted(x.sort(1)[0], x + 0.1),
    "searched without numbers": lambda x: torch.searchsorted(torch.tensor([1.0, 2.0]), x * math.inf * 0),
    "median of numbers": lambda x: torch.nanmedian(torch.where(x > 1, math.nan, x), 1, True).values,
    "median of no numbers": lambda x: torch.nanmedian(x[0] * math.nan),
    "median of all numbers": torch.nanmedian,
    "place of the median of numbers": lambda x: torch.nanmedian(torch.where(x > 5, math.nan, x), 1)[1],
    "third of one": lambda x: torch.kthvalue(x[0, 1], 1)[0],
    "bounded by an extent": lambda x: x.clamp(0, x.shape[1] - 1),
    "larger number": lambda x: torch.fmax(x, torch.where(x > 1, math.nan, -x)),
    "smaller number": lambda x: torch.fmin(torch.where(x > 1, math.nan, -x), x),
    "complement of erf": torch.erfc,
    "crossed bounds": lambda x: x.clamp(1, -1),
    "hypotenuse": lambda x: torch.hypot(x * 1e30, x.flip(1) * 1e30),
    "sign of any": torch.sgn,
    "third": lambda x: torch.kthvalue(x, 3, 1)[0],
    "count": lambda x: torch.linalg.vector_norm(x, 0, 1),
    "any": lambda x: x.any(1),
    "batched products": lambda x: torch.addbmm(x[:, :2], x.T.reshape(2, 2, 2), x.reshape(2, 2, 2), beta=0.5),
    "products instead": lambda x: torch.addbmm(
        torch.full((2, 2), math.nan), x.T.reshape(2, 2, 2), x.reshape(2, 2, 2), beta=0
    ),
    "randomized relu": lambda x: F.rrelu(x),
    "bilinear": lambda x: F.bilinear(x, x[:, :3], torch.arange(24.0).reshape(2, 4, 3), x[:, 0]),
    "unbatched average": lambda x: F.avg_pool1d(x, 2),
    "joined along the diagonal": lambda x: torch.block_diag(x, x + 1),
    **{
        f"distances {p} {rows}": lambda x, p=p, rows=rows: torch.cdist(
            x.repeat(rows, 1), x + 1, p, compute_mode="donot_use_mm_for_euclid_dist" if rows == 1 else MODE
        )
        for p in (0.0, 1.0, 2.0, 3.0, math.inf)
        for rows in (1, 20)
    },
    **{
        f"distances within {p}": lambda x, p=p: F.pdist(x.reshape(4, 2), p)
        for p in (0.0, 1.0, 2.0, 3.0, math.inf)
    },
    "bessel functions": lambda x: torch.stack([torch.i0(x), torch.special.i1e(x * 3)]),
    "logarithms of normal tails": lambda x: torch.special.log_ndtr(x * 4),
    "normal quantiles": lambda x: torch.special.ndtri(x.sigmoid()),
}
WITHOUT_DIMENSIONS: Functions = {
    "softmax": lambda x: x[0, 0].softmax(0),
    "log softmax": lambda x: x[0, 0].log_softmax(0),
    "sum": lambda x: x[0, 0].cumsum(0),
    "product": lambda x: x[0, 0].cumprod(0),
    "place": lambda x: x[0, 0].argmax() + x[1, 0].argmin(),
}


@pytest.mark.parametrize(
    ("functions", "value"),
    [
        (INTEGERS, WHOLE),
        (TRUTHS, NUMBERS),
        (REALS, NUMBERS),
        (WITHOUT_DIMENSIONS, NUMBERS),
    ],
    ids=["integers", "truth values", "reals", "without dimensions"],
)
def test_results_are_those_of_pytorch(functions: Functions, value: torch.Tensor, tmp_path: Path) -> None:
    model = Every(functions).eval()
    assert_agrees(session_of(model, tmp_path, (value,)), model, (value,))


BOUNDS = {
    "relu": torch.relu,
    "relu6": F.relu6,
    "both": lambda x: x.clamp(-1, 1),
    "below": lambda x: x.clamp(min=0),
    "above": lambda x: x.clamp(max=3),
    "elu": F.elu,
    "hardsigmoid": F.hardsigmoid,
    "differs": lambda x: x != x,
    "equals": lambda x: x == x,
}


@pytest.mark.parametrize("function", BOUNDS.values(), ids=BOUNDS)
def test_what_is_no_number_stays_so(function: Callable[[torch.Tensor], torch.Tensor], tmp_path: Path) -> None:
    model = Every({"bounded": function}).eval()
    (found,) = session_of(model, tmp_path, (NAN,)).run({"inputs_0": NAN}).values()
    np.testing.assert_array_equal(found, function(NAN).numpy())


def test_the_complement_of_erf_keeps_its_digits(tmp_path: Path) -> None:
    value = torch.linspace(-6, 6, 97)
    model = Every({"complement": torch.erfc}).eval()
    (found,) = session_of(model, tmp_path, (value,)).run({"inputs_0": value}).values()
    np.testing.assert_allclose(found, torch.erfc(value.double()).numpy(), rtol=2e-6)


def test_distances_of_points_that_coincide_are_zero(tmp_path: Path) -> None:
    points = torch.randn(40, 3) * 30
    model = Every({"distances": torch.cdist}).eval()
    (found,) = (
        session_of(model, tmp_path, (points, points[:30]))
        .run({"inputs_0": points, "inputs_1": points[:30]})
        .values()
    )
    np.testing.assert_array_equal(np.diagonal(found), np.zeros(30, "float32"))


def test_halves_with_parameters_in_single_precision(tmp_path: Path) -> None:
    norm = nn.BatchNorm2d(4).eval()
    norm.running_mean.uniform_(-1, 1)
    model = Every({"norm": lambda x: norm(x.half())}).eval()
    image = torch.randn(2, 4, 5, 3)
    assert_agrees(session_of(model, tmp_path, (image,)), model, (image,))
