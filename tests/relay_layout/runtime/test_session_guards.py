"""What a session makes of every mix of declared and given memory order: right numbers, or a clear refusal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import relay_layout
from relay_layout.errors import InputError
from tests.relax_modules import main_of

SHAPES: dict[str, tuple[int | str, ...]] = {
    "one channel": (1, 1, 5, 4),
    "one pixel": (2, 8, 1, 1),
    "one element": (1, 1, 1, 1),
    "one row": (1, 4, 1, 6),
    "batch of 1": (1, 3, 4, 5),
    "batch of 5": (5, 3, 4, 5),
    "square": (4, 4, 4, 4),
    "no element": (0, 3, 2, 2),
    "three dimensions": (2, 3, 4),
    "one channel of three": (2, 1, 4),
    "five dimensions": (1, 2, 3, 2, 4),
    "matrix": (3, 5),
    "vector": (7,),
    "single": (1,),
    "scalar": (),
    "open batch": ("n", 3, 4, 5),
    "open image": (1, 3, "h", "w"),
    "all open": ("n", 2, "h", "w"),
}
EXTENTS = {"n": (1, 4), "h": (1, 5), "w": (3, 1)}
"""What open dimensions are at run time, in two rounds."""

ODD = ("steps", "backwards", "repeated", "shifted", "read-only")
"""Memory that is no order of dimensions, that begins within a vector, or that no kernel may read in place."""


def orders(rank: int) -> list[tuple[int, ...]]:
    """The plain order, channels last, and others; all of them where they are few."""
    if rank <= 3:
        return list(permutations(range(rank)))
    return [
        tuple(range(rank)),
        (0, *range(2, rank), 1),
        tuple(reversed(range(rank))),
        (0, rank - 1, *range(1, rank - 1)),
    ]


@dataclass(frozen=True)
class Case:
    """An array given as ``given`` says, by ``provider``, to a session with the option ``permute``."""

    given: tuple[int, ...] | str
    provider: str
    permute: bool | None
    round: int

    def __str__(self) -> str:
        return f"{self.given} of {self.provider}, permute={self.permute}, round {self.round}"


def cases(shape: Sequence[int | str]) -> Iterator[Case]:
    rank = len(shape)
    rounds = (0, 1) if any(isinstance(extent, str) for extent in shape) else (0,)
    for given in [*orders(rank), *(ODD if rank else ())]:
        for provider in ("numpy", "torch", "tvm"):
            if provider == "tvm" and given != tuple(range(rank)):
                continue  # TVM's tensors have one order.
            if provider == "torch" and given in ("backwards", "read-only"):
                continue  # PyTorch has no such tensors.
            yield from (
                Case(given, provider, permute, place) for permute in (None, True, False) for place in rounds
            )


TABLE = [
    (name, declared, case)
    for name, shape in SHAPES.items()
    for declared in [None, *orders(len(shape))]
    for case in cases(shape)
]


def test_the_table_is_long_enough() -> None:
    assert len(TABLE) >= 4500
    quick = declarations(quick=True)
    assert sum((name, declared) in quick for name, declared, _ in TABLE) >= 1500


@cache
def artifact(name: str, declared: tuple[int, ...] | None, folder: Path) -> Path:
    """A network of an input x and twice that with its dimensions turned around, in memory as declared."""
    symbols: dict[str, Any] = {}
    shape = [
        symbols.setdefault(extent, tvm.tirx.Var(extent, "int64")) if isinstance(extent, str) else extent
        for extent in SHAPES[name]
    ]
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with main_of(x) as builder:
        doubled = builder.emit(relax.op.add(x, x))
        turned = (
            builder.emit(relax.op.permute_dims(doubled)) if len(shape) > 1 and 0 not in shape else doubled
        )
        builder.result = relax.Tuple([doubled, turned])
    options: dict[str, Any] = {}
    if declared is not None:
        options = {"input_dim_orders": {"x": declared}, "output_dim_orders": {"output_0": declared}}
    path = folder / f"{name} {declared}.rla"
    relay_layout.compile(builder.finalize(), desired_layout="none", target="x86-64-v2", **options).save(path)
    return path


def aligned(shape: Sequence[int], shift: int = 0) -> np.ndarray:
    """Memory of that shape that begins ``shift`` elements after a multiple of 64 bytes."""
    count = int(np.prod(shape))
    room = np.zeros(count * 4 + 256, "uint8")
    start = -room.ctypes.data % 64 + 4 * shift
    return room[start : start + 4 * count].view("float32").reshape(shape)


def memory(shape: tuple[int, ...], given: tuple[int, ...] | str) -> np.ndarray:
    """An array of random numbers that lies as ``given`` says."""
    rank = len(shape)
    if isinstance(given, tuple):
        array = (
            aligned([shape[axis] for axis in given]).transpose(np.argsort(given)) if rank else aligned(shape)
        )
    elif given == "steps":
        array = aligned([2 * extent for extent in shape])[(slice(None, None, 2),) * rank]
    elif given == "backwards":
        array = aligned(shape)[(slice(None, None, -1),) * rank]
    elif given == "repeated":
        return np.broadcast_to(np.float32(3.5), shape)
    else:
        array = aligned(shape, shift=1 if given == "shifted" else 0)
    array[...] = np.random.default_rng(len(shape)).standard_normal(shape, dtype="float32")
    if given == "read-only":
        array.flags.writeable = False
    return array


def provided(array: np.ndarray, provider: str) -> Any:
    """The same memory as a tensor of another library."""
    if provider == "torch":
        torch = pytest.importorskip("torch")
        steps = [stride // 4 for stride in array.strides]
        if 0 in steps and array.size:
            return torch.full((1,), float(array.flat[0])).as_strided(array.shape, steps)
        return torch.from_numpy(array)
    if provider == "tvm":
        tensor = tvm.runtime.empty(array.shape, "float32")
        return tensor.copyfrom(array)
    return array


def lies(array: np.ndarray, order: Sequence[int]) -> bool:
    """Whether every element is where the order says, found by asking for the place of each."""
    shape = [array.shape[axis] for axis in order]
    expected = np.arange(array.size).reshape(shape).transpose(np.argsort(order)) if order else np.zeros(())
    return bool(np.array_equal(places(array), expected))


def ascends(array: np.ndarray, order: Sequence[int]) -> bool:
    """Whether each element lies behind the one before it in the order, at whatever distance."""
    return bool((np.diff(places(array).transpose(order).reshape(-1)) > 0).all())


def places(array: np.ndarray) -> np.ndarray:
    """Where each element lies, counted in elements from the first."""
    found = np.zeros(array.shape, "int64")
    for axis, stride in enumerate(array.strides):
        along = [1] * array.ndim
        along[axis] = array.shape[axis]
        found += (np.arange(array.shape[axis]) * (stride // 4)).reshape(along)
    return found


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("guards")


def declarations(*, quick: bool) -> list[tuple[str, tuple[int, ...] | None]]:
    """What is declared of each shape; for quick tests nothing, and an order that is not the plain one."""
    return [
        (name, declared)
        for name, shape in SHAPES.items()
        for place, declared in enumerate([None, *orders(len(shape))])
        if (place in (0, 2)) == quick
    ]


@pytest.mark.parametrize(
    ("name", "declared"),
    [
        *declarations(quick=True),
        *(pytest.param(*values, marks=pytest.mark.slow) for values in declarations(quick=False)),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else str(value),
)
def test_right_numbers_or_a_refusal(name: str, declared: tuple[int, ...] | None, artifacts: Path) -> None:
    path = artifact(name, declared, artifacts)
    sessions = {permute: relay_layout.load(path, permute=permute) for permute in (None, True, False)}
    for case in cases(SHAPES[name]):
        shape = tuple(
            EXTENTS[extent][case.round] if isinstance(extent, str) else extent for extent in SHAPES[name]
        )
        check(sessions[case.permute], memory(shape, case.given), declared, case)


def check(
    session: relay_layout.Session, array: np.ndarray, declared: Sequence[int] | None, case: Case
) -> None:
    wanted = tuple(range(array.ndim)) if declared is None else tuple(declared)
    fits = lies(array, wanted) or array.size == 0
    given = provided(array, case.provider)
    if (
        not fits
        and not ascends(array, wanted)
        and not (declared is None if case.permute is None else case.permute)
    ):
        with pytest.raises(InputError) as raised:
            session.run({"x": given})
        message = str(raised.value)
        assert message.startswith("input 'x': lies in memory "), case
        assert f"expected dim_order ({', '.join(map(str, wanted))})" in message, case
        assert message.endswith("or let it be copied with permute=True"), case
        # What the message advises helps.
        advice = message.split("convert with ")[1].split(" or torch's")[0].split(", or let")[0]
        given, fits = eval(advice, {"numpy": np, "x": array}), True
    outputs = session.run({"x": given})
    np.testing.assert_array_equal(outputs["output_0"], 2 * array, err_msg=str(case))
    if array.size:
        np.testing.assert_array_equal(outputs["output_1"], (2 * array).T, err_msg=str(case))
    assert lies(outputs["output_0"], wanted) or not array.size, case
    held = np.from_dlpack(given) if case.provider == "tvm" else np.asarray(given)
    borrowed = fits and held.flags.writeable and held.size > 0
    assert session.copied == (() if borrowed else ("x",)), case


def test_an_input_that_fits_is_not_copied(artifacts: Path) -> None:
    """The kernel is given the caller's own address."""
    session = relay_layout.load(artifact("batch of 5", (0, 2, 3, 1), artifacts))
    array = memory((5, 3, 4, 5), (0, 2, 3, 1))
    seen = []
    entry = session._entry
    session._entry = lambda *arguments: (seen.append(arguments[0]), entry(*arguments))[1]
    session.run({"x": array})
    assert np.from_dlpack(seen[0]).ctypes.data == array.ctypes.data
    assert np.from_dlpack(seen[0]).shape == (5, 4, 5, 3)


def test_results_do_not_share_memory_with_inputs(artifacts: Path) -> None:
    session = relay_layout.load(artifact("matrix", None, artifacts))
    array = memory((3, 5), (0, 1))
    output = session.run({"x": array})["output_0"]
    kept = output.copy()
    array[...] = 7
    np.testing.assert_array_equal(output, kept)


def test_the_manifest_tells_the_order(artifacts: Path) -> None:
    session = relay_layout.load(artifact("batch of 1", (0, 2, 3, 1), artifacts))
    (spec,) = session.inputs
    assert (spec.shape, spec.layout, spec.dim_order) == ((1, 3, 4, 5), "NHWC", (0, 2, 3, 1))
    assert spec.declared
    plain = relay_layout.load(artifact("batch of 1", None, artifacts)).inputs[0]
    assert (plain.layout, plain.dim_order, plain.declared) == ("NCHW", (0, 1, 2, 3), False)


def test_a_message_in_full(artifacts: Path) -> None:
    session = relay_layout.load(artifact("batch of 1", (0, 2, 3, 1), artifacts))
    with pytest.raises(InputError) as raised:
        session.run({"x": np.zeros((1, 3, 4, 5), "float32")})
    assert str(raised.value) == (
        "input 'x': lies in memory in dim_order (0, 1, 2, 3), NCHW, expected dim_order (0, 2, 3, 1), NHWC; "
        "convert with numpy.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) "
        "or torch's x.contiguous(memory_format=torch.channels_last), or let it be copied with permute=True"
    )
    with pytest.raises(InputError) as raised:
        session.run({"x": np.zeros((1, 3, 4, 5), "float32")[:, ::-1]})
    assert "lies in memory with strides (60, -20, 5, 1), which is no order of dimensions" in str(raised.value)


def test_a_slice_in_the_order_is_copied(artifacts: Path) -> None:
    torch = pytest.importorskip("torch")
    session = relay_layout.load(artifact("batch of 1", (0, 2, 3, 1), artifacts))
    images = torch.arange(2.0 * 6 * 4 * 5).reshape(2, 6, 4, 5).to(memory_format=torch.channels_last)
    image = images[1:, 2:5]
    np.testing.assert_array_equal(session.run({"x": image})["output_0"], 2 * image.numpy())
    assert session.copied == ("x",)
    with pytest.raises(InputError) as raised:
        session.run({"x": images.contiguous()[1:, :3, :, :]})
    assert "lies in memory in dim_order (0, 1, 2, 3), NCHW" in str(raised.value)
    with pytest.raises(InputError) as raised:
        session.run({"x": torch.zeros(1, 3, 4, 10)[..., ::2]})
    assert "lies in memory in dim_order (0, 1, 2, 3), NCHW, with gaps, expected" in str(raised.value)


def test_tensors_that_numpy_cannot_hold_are_refused(artifacts: Path) -> None:
    torch = pytest.importorskip("torch")
    session = relay_layout.load(artifact("matrix", None, artifacts))
    with pytest.raises(InputError) as raised:
        session.run({"x": torch.zeros(3, 5, dtype=torch.bfloat16)})
    assert str(raised.value).startswith("input 'x': numpy cannot read this torch.Tensor in place (")
    session.run({"x": torch.zeros(3, 5, requires_grad=True)})


def test_the_words_for_a_tensor_of_pytorch_are_its_own(artifacts: Path) -> None:
    torch = pytest.importorskip("torch")
    session = relay_layout.load(artifact("batch of 1", None, artifacts))
    image = torch.zeros(4, 5, 3, dtype=torch.uint8)
    with pytest.raises(InputError) as raised:
        session.run({"x": image})
    found, advice = str(raised.value).split("; convert with ")
    assert found == "input 'x': expected float32 [1, 3, 4, 5], got uint8 [4, 5, 3]"
    assert advice == "[None].permute(0, 3, 1, 2).to(torch.float32)"
    session.run({"x": eval(f"image{advice}", {"image": image, "torch": torch})})


def test_signs_that_pytorch_has_yet_to_turn(artifacts: Path) -> None:
    """Such as imaginary parts of conjugates: what lies in memory are their negatives."""
    torch = pytest.importorskip("torch")
    session = relay_layout.load(artifact("matrix", None, artifacts), permute=True)
    turned = torch.fft.fft(torch.rand(3, 5)).conj().imag
    assert turned.is_neg()
    found, wanted = (session.run({"x": given}) for given in (turned, turned.resolve_neg().contiguous()))
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


def test_masked_elements_are_refused(artifacts: Path) -> None:
    """A mask would be lost without a word."""
    session = relay_layout.load(artifact("matrix", None, artifacts))
    array = np.ma.masked_array(np.ones((3, 5), "float32"), mask=False)
    session.run({"x": array})
    array[1, 2:4] = np.ma.masked
    with pytest.raises(InputError) as raised:
        session.run({"x": array})
    assert str(raised.value) == (
        "input 'x': expected float32 [3, 5], got an array with 2 masked elements; fill them: x.filled(0)"
    )
