"""Operations of PyTorch, on odd shapes, beside PyTorch's numbers."""

import math
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tests.relay_layout.frontend.torch.harness import Every, Functions, assert_agrees, session_of  # noqa: E402

torch.manual_seed(0)


def randoms(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


KERNEL, MATRIX = randoms(4, 6, 2, 2), randoms(5, 6)
VOLUMES, RATES = randoms(6, 3, 3, 2, 2), randoms(6)


def upsampled(volume: torch.Tensor) -> torch.Tensor:
    return F.conv_transpose3d(volume, VOLUMES, RATES, (1, 2, 2), (0, 1, 1), (0, 1, 0), 2)


CONVOLUTIONS: Functions = {
    "plain": nn.Conv2d(6, 10, 3),
    "strides": nn.Conv2d(6, 7, (3, 5), stride=(2, 3), padding=(1, 2), bias=False),
    "dilated": nn.Conv2d(6, 5, 3, dilation=(2, 1), padding=(2, 0)),
    "grouped": nn.Conv2d(6, 9, 3, groups=3, padding=1),
    "depthwise": nn.Conv2d(6, 12, 3, groups=6, stride=2),
    "same": nn.Conv2d(6, 4, (3, 4), padding="same"),
    "reflect": nn.Conv2d(6, 4, 3, padding=1, padding_mode="reflect"),
    "transposed": nn.ConvTranspose2d(6, 5, 3, stride=2, padding=1, output_padding=1),
    "transposed groups": nn.ConvTranspose2d(6, 4, (2, 3), stride=(1, 2), groups=2),
    "transposed volumes": lambda x: upsampled(x[:, :, None]).contiguous(),
    "standardized": lambda x: F.conv2d(x, (KERNEL - KERNEL.mean((1, 2, 3), True)) / KERNEL.std()),
    "batch norm": nn.Sequential(nn.Conv2d(6, 8, 1), nn.BatchNorm2d(8), nn.ReLU6()).eval(),
    "functional": lambda x: F.conv2d(x, KERNEL, stride=2),
}


def places_among(image: torch.Tensor, number: float) -> torch.Tensor:
    """Where the maxima of windows are that hold ``number`` alone, but for the padding around it."""
    return F.max_pool2d(torch.full_like(image, number), 3, 2, 1, return_indices=True)[1]


def unpooled(image: torch.Tensor) -> torch.Tensor:
    values, places = F.max_pool2d(image[:, :, :8, :6], 2, return_indices=True)
    return F.max_unpool2d(values, places, 2)


POOLINGS: Functions = {
    "max": nn.MaxPool2d(3, 2, 1),
    "max ceil": nn.MaxPool2d(3, 2, ceil_mode=True),
    "max dilated": nn.MaxPool2d(2, 1, dilation=2),
    "average": nn.AvgPool2d(3, 2, 1),
    "average without padding": nn.AvgPool2d(3, 2, 1, count_include_pad=False),
    "average ceil": nn.AvgPool2d((2, 3), 2, ceil_mode=True, count_include_pad=False),
    "adaptive": nn.AdaptiveAvgPool2d(1),
    "adaptive uneven": nn.AdaptiveAvgPool2d((3, 4)),
    "global": lambda x: x.mean((2, 3), keepdim=True),
    "sum": lambda x: x.sum(1),
    "variance": lambda x: x.var((2, 3), unbiased=False),
    "largest": lambda x: x.amax((1, 2)),
    "index": lambda x: x.argmax(1),
    "average divisor": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=4),
    "average larger": lambda x: F.avg_pool2d(x, 60, ceil_mode=True),
    "average volumes divisor": lambda x: F.avg_pool3d(x, 2, divisor_override=3),
    "places": lambda x: F.max_pool2d(x, (3, 2), (1, 2), 1, ceil_mode=True, return_indices=True)[1],
    "places dilated": lambda x: F.max_pool2d(x, 2, 2, dilation=2, return_indices=True)[1],
    "places of nothing": lambda x: places_among(x, -math.inf),
    "places of volumes": lambda x: F.max_pool3d(x.contiguous(), 2, return_indices=True)[1],
    "unpool": lambda x: unpooled(x).contiguous(),
    "adaptive max": nn.AdaptiveMaxPool2d(1),
    "adaptive max uneven": nn.AdaptiveMaxPool2d((4, 5)),
    "adaptive max of one row": nn.AdaptiveMaxPool2d((1, 7)),
    "adaptive max of rows": lambda x: F.adaptive_max_pool1d(x[:, :, 0], 3),
    "adaptive max of volumes": nn.AdaptiveMaxPool3d((3, 2, 4)),
    "largest and where": lambda x: torch.cat([part.float() for part in x.max(2)]),
    "largest of nothing": lambda x: torch.full_like(x, -math.inf).max(2)[1],
    "least and where": lambda x: torch.cat([part.float() for part in x.min(1, keepdim=True)]),
    "variance and mean": lambda x: torch.cat(torch.var_mean(x, (2, 3), correction=1)),
    "product": lambda x: x.prod(1),
}
ARITHMETIC: Functions = {
    "add times": lambda x: torch.add(x, x.abs(), alpha=0.3),
    "subtract times": lambda x: torch.sub(x, x.abs(), alpha=-2),
    "subtract from times": lambda x: torch.rsub(x, 2, alpha=3),
    "mixed types": lambda x: (x * 9).long() + x,
    "divided integers": lambda x: (x * 9).long() / 2,
    "rounded down": lambda x: (x * 9).long() // 2,
    "rounded to zero": lambda x: torch.div((x * 9).int(), 2, rounding_mode="trunc"),
    "rounded reals": lambda x: torch.div(x, 0.3, rounding_mode="trunc"),
    "both": lambda x: ((x > 0) * (x < 1)).float(),
    "one of both": lambda x: ((x > 1) + (x < 0.5)).float(),
    "selu": lambda x: F.selu(4 * x),
    "celu": lambda x: F.celu(4 * x, 0.3),
    "elu far": lambda x: F.elu(200 * x, 0.7),
    "clamped integers": lambda x: (x * 9).long().clamp(max=3),
    "clamped on both sides": lambda x: (x * 9).int().clamp(-2, 3),
    "masked by infinity": lambda x: (x[..., :7, :] + torch.full((7, 7), -math.inf).triu(1)).softmax(-1),
    "like infinity": lambda x: torch.full_like(x, math.inf).minimum(x),
    "clamped above": lambda x: torch.clamp_max(x, 0.3),
    "power of two": torch.exp2,
    "hyperbolic": lambda x: torch.sinh(3 * x) + torch.cosh(x),
    "count": lambda x: (x > 0).cumsum(1),
    "either integer": lambda x: torch.where(x > 0, (x * 9).int(), (x * 5).long()),
    "an integer or a real": lambda x: torch.where(x > 0, (x * 9).long(), x),
}
ACTIVATIONS: Functions = {
    "relu": F.relu,
    "leaky": lambda x: F.leaky_relu(x, 0.2),
    "elu": F.elu,
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": lambda x: F.hardtanh(x, -0.3, 0.7),
    "softplus": F.softplus,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "prelu": nn.PReLU(6),
    "softmax": lambda x: F.softmax(x, 1),
    "log softmax": lambda x: F.log_softmax(x, -1),
    "clamp": lambda x: x.clamp(min=-0.5),
    "erf": torch.erf,
    "where": lambda x: torch.where(x > 0, x, -2 * x),
    "power": lambda x: x.abs() ** 1.5,
}
NORMALIZATIONS: Functions = {
    "batch": nn.BatchNorm2d(6).eval(),
    "group": nn.GroupNorm(3, 6),
    "instance": nn.InstanceNorm2d(6, affine=True),
    "instance plain": nn.InstanceNorm2d(6, eps=0.1),
    "instance of the training": nn.InstanceNorm2d(6, affine=True, track_running_stats=True).eval(),
    "instance of rows": lambda x: F.instance_norm(x[:, :, 0], eps=1e-3),
    "layer": nn.LayerNorm((9, 7)),
    "layer channels": lambda x: F.layer_norm(x.permute(0, 2, 3, 1), (6,)).permute(0, 3, 1, 2),
    "local response": lambda x: F.local_response_norm(x, 3),
    "normalize": lambda x: F.normalize(x, dim=1),
}
MOVEMENTS: Functions = {
    "permute": lambda x: x.permute(0, 2, 3, 1) + 1,
    "transpose": lambda x: x.transpose(1, 3) * 2,
    "reshape": lambda x: (x + 1).reshape(x.shape[0], 3, 2, -1),
    "flatten": lambda x: x.flatten(1),
    "concat": lambda x: torch.cat([x, x * 2, x[:, :1]], 1),
    "concat of dtypes": lambda x: torch.cat([(x > 0).to(torch.int64), x, x > 1], 1),
    "stack": lambda x: torch.stack([x, -x], 2),
    "split": lambda x: x.split([2, 4], 1)[1] + 1,
    "chunk": lambda x: x.chunk(3, 1)[2] * 3,
    "slice": lambda x: x[:, 1::2, 2:-1, :-2] + 0,
    "select": lambda x: x[:, 2] + 0,
    "select the last": lambda x: x[:, -1] + 0,
    "select from the end": lambda x: x[..., -3] * x[-1, 0, -2, :6, None],
    "pad": lambda x: F.pad(x, (1, 2, 0, 3), value=0.5),
    "pad reflect": lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"),
    "pad circular": lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"),
    "pad and cut": lambda x: F.pad(x, (-1, 2, 3, -2, 1, 0), value=1.5),
    "pad integers": lambda x: F.pad((x * 9).int(), (1, 0), value=7),
    "pad rows": lambda x: F.pad(x[:, :, 0], (3, 1), mode="reflect"),
    "pad by what is left of all": lambda x: F.pad(x, (-7, 5, 4, -9), mode="replicate"),
    "pad replicate": lambda x: F.pad(x, (1, 2, 2, 1), mode="replicate"),
    "shuffle": lambda x: F.pixel_shuffle(x[:, :4], 2),
    "unshuffle": lambda x: F.pixel_unshuffle(x[:, :, :8, :6], 2),
    # Of these two, torch.export knows another memory order than they give.
    "channel shuffle": lambda x: F.channel_shuffle(x, 2).contiguous(),
    "roll": lambda x: torch.roll(x, (1, -2), (2, 3)).contiguous(),
    "flip": lambda x: x.flip(3),
    "expand": lambda x: x[:, :1].expand(-1, 4, -1, -1) + 0,
    "unsqueeze": lambda x: x.unsqueeze(2).squeeze(2) + 0,
    "repeat": lambda x: x.repeat(1, 2, 1, 1),
}
FIRST, SECOND = torch.tensor([0, 5, -1]), torch.tensor([3, -2, 8])
PLACES = torch.arange(2 * 2 * 3 * 4).reshape(2, 2, 3, 4) % 6


def sampled(image: torch.Tensor, mode: str, padding: str, corners: bool) -> torch.Tensor:
    rank = image.dim() - 2
    extents = (5, 4, 2)[:rank]
    points = torch.linspace(-1.3, 1.4, math.prod(extents) * rank).reshape(1, *extents, rank)
    points = points.expand(image.shape[0], *points.shape[1:])
    return F.grid_sample(image, points, mode, padding, align_corners=corners).contiguous()


SAMPLINGS: Functions = {
    "bilinear": lambda x: sampled(x, "bilinear", "zeros", False),
    "nearest": lambda x: sampled(x, "nearest", "border", True),
    "reflected": lambda x: sampled(x, "bilinear", "reflection", False),
    "bicubic": lambda x: sampled(x, "bicubic", "zeros", True),
    "volumes": lambda x: sampled(x[:, None], "bilinear", "zeros", False),
    "rows": lambda x: F.interpolate(x[:, :, 0], 13, mode="linear"),
}
INDEXINGS: Functions = {
    "windows": lambda x: x.unfold(2, 4, 2) + 0,
    "scatter": lambda x: x.scatter(1, PLACES, 3 * x),
    "scatter a number": lambda x: x.scatter(1, PLACES[:, :, :1], 0.5),
    "scatter sums": lambda x: x.scatter_add(-3, PLACES, 3 * x),
    "one": lambda x: x[:, :, torch.tensor([[3, 1], [0, -2]])].contiguous(),
    "together": lambda x: x[:, FIRST, SECOND].contiguous(),
    "broadcast": lambda x: x[:, FIRST[:, None], SECOND].contiguous(),
    "apart": lambda x: x[:, FIRST, :, FIRST].contiguous(),
    "all": lambda x: x[torch.tensor([1]), FIRST, SECOND, FIRST].contiguous(),
    "unfold": lambda x: F.unfold(x, 3, padding=1, stride=2),
    "fold": lambda x: F.fold(F.unfold(x, 2), (9, 7), 2),
    "put": lambda x: x.clone().index_put((FIRST[1:] * 0 + 1, FIRST[1:], SECOND[1:]), torch.ones(7)),
    "slice beyond": lambda x: x[:, -20:4:3, 2:99].contiguous(),
}
RESIZINGS: Functions = {
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "nearest factor": lambda x: F.interpolate(x, scale_factor=(1.5, 0.6)),
    "nearest size": lambda x: F.interpolate(x, (13, 5)),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "bilinear corners": lambda x: F.interpolate(x, (5, 11), mode="bilinear", align_corners=True),
    "bicubic": lambda x: F.interpolate(x, (12, 10), mode="bicubic"),
}
PRODUCTS: Functions = {
    "linear": lambda x: F.linear(x.mean((2, 3)), MATRIX),
    "matmul": lambda x: x @ x.transpose(2, 3),
    "squeeze excitation": lambda x: x * torch.sigmoid(x.mean((2, 3), keepdim=True)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "einsum": lambda x: torch.einsum("nchw,ncij->nhi", x, x),
    "bmm": lambda x: torch.bmm(x.flatten(2), x.flatten(2).transpose(1, 2)),
}
GROUPS = {
    "convolutions": CONVOLUTIONS,
    "poolings": POOLINGS,
    "activations": ACTIVATIONS,
    "normalizations": NORMALIZATIONS,
    "movements": MOVEMENTS,
    "indexings": INDEXINGS,
    "resizings": RESIZINGS,
    "samplings": SAMPLINGS,
    "arithmetic": ARITHMETIC,
    "products": PRODUCTS,
}


LONG = (
    "bicubic",
    "attention",
    "einsum",
    "transposed groups",
    "transposed volumes",
    "same",
    "variance",
    "mish",
)
"""Left to the sweep: their kernels take long to compile."""


@pytest.mark.parametrize("group", GROUPS)
def test_operations_agree(group: str, tmp_path: Path) -> None:
    model = Every({name: made for name, made in GROUPS[group].items() if name not in LONG}).eval()
    image = randoms(2, 6, 9, 7).to(memory_format=torch.channels_last)
    assert_agrees(session_of(model, tmp_path, (image,)), model, (image,), group)


@pytest.mark.slow
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group, functions in GROUPS.items() for name in functions]
)
def test_each_operation_agrees(
    group: str, name: str, memory_format: torch.memory_format, tmp_path: Path
) -> None:
    model = Every({name: GROUPS[group][name]}).eval()
    image = randoms(3, 6, 9, 7).to(memory_format=memory_format)
    assert_agrees(session_of(model, tmp_path, (image,)), model, (image,), name)


def test_slices_of_open_extents(tmp_path: Path) -> None:
    """Rows that are an expression of others: every second one of 2 h - 1 is h."""

    class Halves(nn.Module):
        def forward(self, long: torch.Tensor, short: torch.Tensor) -> torch.Tensor:
            return (2 * long)[:, :, ::2] + short

    rows = torch.export.Dim("rows", min=4, max=64)
    model, inputs = Halves().eval(), (randoms(1, 3, 15, 5), randoms(1, 3, 8, 5))
    shapes = {"long": {2: 2 * rows - 1}, "short": {2: rows}}
    session = session_of(model, tmp_path, inputs, dynamic_shapes=shapes)
    for count in (8, 5):
        assert_agrees(session, model, (randoms(1, 3, 2 * count - 1, 5), randoms(1, 3, count, 5)))


def test_the_first_of_open_extents(tmp_path: Path) -> None:
    class First(nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return (2 * image)[:, :, :4] + (3 * image)[:, :, -5:-1]

    rows = torch.export.Dim("rows", min=6, max=64)
    model = First().eval()
    session = session_of(model, tmp_path, (randoms(1, 3, 9, 5),), dynamic_shapes={"image": {2: rows}})
    for count in (9, 6):
        assert_agrees(session, model, (randoms(1, 3, count, 5),))


def test_one_of_open_extents(tmp_path: Path) -> None:
    class Last(nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return image[:, -1] * 2 + image[:, 1]

    rows = torch.export.Dim("rows", min=3, max=64)
    model = Last().eval()
    session = session_of(model, tmp_path, (randoms(1, 5, 9),), dynamic_shapes={"image": {1: rows, 2: None}})
    for count in (5, 3):
        assert_agrees(session, model, (randoms(1, count, 9),))


def test_open_extents_are_numbers(tmp_path: Path) -> None:
    class Counted(nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            count = image.shape[0]
            return count - image.sum(0, keepdim=True) / (count * image.shape[2]) + image * count

    batch = torch.export.Dim("batch", min=1, max=8)
    model = Counted().eval()
    session = session_of(model, tmp_path, (randoms(2, 3, 4, 5),), dynamic_shapes={"image": {0: batch}})
    for count in (2, 5):
        assert_agrees(session, model, (randoms(count, 3, 4, 5),))


def test_a_slice_of_nothing_is_empty(tmp_path: Path) -> None:
    class Nothing(nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return (2 * image)[:, 5:3]

    image = randoms(2, 6, 4, 5)
    (output,) = session_of(Nothing().eval(), tmp_path, (image,)).run({"image": image}).values()
    assert output.shape == (2, 0, 4, 5)
