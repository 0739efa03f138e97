"""Convolutions over one and three axes beside torch's, with the loops they get."""

import numpy as np
import pytest
from kernel_harness import apply_rules, prim_func
from kernel_ranked import TARGET, RankedCase, check_ranked
from kernel_reference import pack
from tvm import te

from topi_ext.compute import conv1d, conv3d
from topi_ext.errors import RelayLayoutError

torch = pytest.importorskip("torch")


def plain(
    channels: tuple[int, int],
    image: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int = 1,
    batch: int = 2,
) -> RankedCase:
    return RankedCase(
        channels, image, kernel, strides, padding, dilation=dilation, groups=groups, batch=batch
    )


def check(case: RankedCase, layouts: str, *, any_batch: bool = False) -> None:
    compute = conv1d if len(case.image) == 1 else conv3d
    check_ranked(case, compute, torch, layouts, any_batch=any_batch)


CASES = [
    plain((3, 5), (7,), (3,), (2,), (1, 2), (1,)),
    plain((6, 4), (11,), (4,), (1,), (2, 1), (2,), groups=2),
    plain((6, 6), (9,), (3,), (1,), (1, 1), (1,), groups=6),
    plain((3, 5), (5, 4, 6), (3, 2, 1), (2, 1, 3), (1, 0, 2, 1, 1, 0), (1, 2, 1)),
    plain((6, 4), (5, 4, 6), (2, 2, 2), (1, 2, 1), (0, 0, 0, 0, 0, 0), (2, 1, 2), groups=2),
    plain((6, 12), (4, 4, 3), (3, 3, 3), (1, 1, 1), (1, 1, 1, 1, 1, 1), (1, 1, 1), groups=6),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_channels_first(case: RankedCase) -> None:
    check(case, f"NC{case.spatial} OI{case.spatial} NC{case.spatial}")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_channels_last(case: RankedCase) -> None:
    check(case, f"N{case.spatial}C {case.spatial}IO N{case.spatial}C")


CUBE = ((2, 1, 1), (1, 1, 1, 1, 1, 1), (1, 1, 1))
FLAT = ((1, 1, 1), (0, 0, 0, 0, 0, 0), (1, 1, 1))
VECTORS = "NCDHW16c OIDHW16i16o NCDHW16c"


@pytest.mark.parametrize(
    ("case", "layouts"),
    [
        (plain((8, 16), (9,), (3,), (1,), (1, 1), (1,)), "NCW4c OIW4i8o NCW8c"),
        (plain((8, 8), (9,), (3,), (2,), (1, 1), (1,), 8), "NCW8c OIW8o NCW8c"),
        (plain((8, 12), (9,), (3,), (1,), (0, 0), (1,)), "NCW8c IW8iO NWC"),
        (plain((8, 16), (4, 5, 3), (3, 3, 3), *CUBE), "NCDHW4c OIDHW4i8o NCDHW8c"),
        (plain((8, 16), (4, 5, 3), (3, 3, 3), *CUBE, 2), "NCDHW8c OIDHW4i8o NCDHW8c"),
        (plain((8, 8), (4, 5, 3), (3, 3, 3), *CUBE, 8), "NCDHW4c OIDHW4o NCDHW4c"),
        (plain((3, 16), (4, 5, 3), (3, 3, 3), *CUBE), "NCDHW DHWIO NDHWC"),
        (plain((3, 32), (3, 7, 9), (3, 3, 3), *CUBE), "NCDHW ODHWI16o NDHWC"),
        (plain((24, 20), (3, 7, 9), (3, 3, 3), *CUBE), "NDHWC ODHWI16o NDHWC"),
        (plain((6, 10), (3, 7, 9), (3, 3, 3), *CUBE, 2), "NDHWC GODHWI8o NDHWC"),
        (plain((16, 32), (3, 5, 7), (1, 1, 1), *FLAT), "NCDHW16c OIDHW16i16o NCDHW16c"),
        (plain((16, 32), (3, 5, 7), (1, 1, 1), *FLAT), "NDHWC ODHWI16o NDHWC"),
        (plain((32, 16), (2, 9, 9), (5, 3, 3), (1, 2, 1), (2, 1, 1, 2, 1, 1), (1, 1, 1)), VECTORS),
        (plain((16, 16), (7, 6, 5), (2, 3, 3), (2, 1, 1), (0, 2, 2, 3, 2, 2), (3, 2, 2)), VECTORS),
        (plain((16, 16), (5, 6, 8), (3, 3, 3), *CUBE, 16), "NDHWC DHWOI NDHWC"),
    ],
    ids=str,
)
def test_blocks(case: RankedCase, layouts: str) -> None:
    check(case, layouts)


@pytest.mark.parametrize(
    ("case", "layouts"),
    [
        (plain((4, 8), (9,), (3,), (1,), (1, 1), (1,), batch=3), "NWC WIO NWC"),
        (plain((4, 8), (4, 5, 3), (3, 3, 3), *CUBE, batch=3), "NDHWC DHWIO NDHWC"),
    ],
    ids=str,
)
def test_any_batch(case: RankedCase, layouts: str) -> None:
    check(case, layouts, any_batch=True)


@pytest.mark.parametrize(
    ("data", "kernel"),
    [
        ("NCW", "OIW"),
        ("NWC", "WIO"),
        ("NCW16c", "OIW16i16o"),
        ("NCDHW", "OIDHW"),
        ("NDHWC", "DHWIO"),
        ("NCDHW16c", "OIDHW16i16o"),
    ],
)
def test_any_number_of_axes_has_the_tiles_of_an_image(data: str, kernel: str) -> None:
    """The loops of a plain reduction would be several times slower."""
    spatial = "".join(axis for axis in "DHW" if axis in data)
    image, window = (5, 6, 64)[-len(spatial) :], (3,) * len(spatial)
    stored = [
        pack(np.zeros((1, 32, *image), "float32"), f"NC{spatial}", data),
        pack(np.zeros((32, 32, *window), "float32"), f"OI{spatial}", kernel),
    ]
    tensors = [te.placeholder(array.shape) for array in stored]
    compute = conv1d if spatial == "W" else conv3d
    padding = (1,) * (2 * len(spatial))
    made = compute(*tensors, padding=padding, data_layout=data, kernel_layout=kernel, out_layout=data)
    assert apply_rules(prim_func([*tensors, made]), TARGET)[0] == "Convolution"


@pytest.mark.parametrize("planes", [1, 2])
def test_planes_of_padding_are_left_out(planes: int) -> None:
    case = plain((16, 16), (planes, 6, 5), (5, 3, 3), (1, 1, 1), (2, 1, 1, 2, 1, 1), (1, 1, 1))
    check(case, VECTORS)
    data, kernel, _ = VECTORS.split()
    tensors = [te.placeholder((2, 1, planes, 6, 5, 16)), te.placeholder((1, 1, 5, 3, 3, 16, 16))]
    made = conv3d(
        *tensors, padding=(2, 1, 1, 2, 1, 1), data_layout=data, kernel_layout=kernel, out_layout=data
    )
    script = apply_rules(prim_func([*tensors, made]), TARGET)[1].mod["main"].script()
    assert "T.likely" in script


def test_channels_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(RelayLayoutError) as refused:
        conv3d(te.placeholder((1, 4, 5, 5, 5)), te.placeholder((8, 3, 1, 1, 1)))
    problem = "4 input channels for 1 groups of 3"
    assert str(refused.value) == f"conv3d of NCDHW, OIDHW to NCDHW: {problem}"
