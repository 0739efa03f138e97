"""Networks and convolutions for cortex-a76 give on an emulated board what they give here."""

from pathlib import Path

import numpy as np
import pytest

import relay_layout
from relay_layout.errors import ArtifactError
from relay_layout.models import build, names
from relay_layout.runtime.remote import open_session
from tests.attention_graphs import random_attention
from tests.board.networks import (
    LAYOUTS,
    TARGET,
    TOLERANCE,
    convolutions_by_definition,
    convolutions_module,
    network_error,
    on_board,
    random_convolution,
)
from tests.board.servers import Boards

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

QUICK = ("resnet18", "squeezenet1_1")
SEEDS = range(40)
ATTENTION_SEEDS = range(4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in names()]
)
def test_networks(boards: Boards, tmp_path: Path, name: str, layout: str) -> None:
    assert network_error(name, layout, boards.remote, tmp_path) < TOLERANCE


@pytest.mark.parametrize("layout", [pytest.param("NHWC", marks=pytest.mark.slow), "NCHW8c"])
def test_a_quantized_network_gives_the_bits_of_onnx_runtime(
    boards: Boards, tmp_path: Path, layout: str
) -> None:
    assert network_error("squeezenet1_1", layout, boards.remote, tmp_path, "int8") == 0


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_step_of_a_quantized_network(boards: Boards, tmp_path: Path, layout: str) -> None:
    """One that amplifies a rounding: each is given ONNX Runtime's integers, and one step apart at most."""
    import onnx

    from scripts.quantize import quantize
    from tests.quantized_steps import steps_apart_each

    network = build("convnext_tiny", image_size=64, width=0.25)
    model = onnx.load(quantize(network, tmp_path / "int8.onnx"))
    image = np.random.default_rng(7).standard_normal((1, 3, 64, 64), dtype="float32")
    largest, share = steps_apart_each(
        model, image, lambda apart, inputs: on_board(apart, layout, inputs, boards.remote, tmp_path)
    )
    assert largest <= 1 and share < 2e-5, (largest, share)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_convolutions(boards: Boards, tmp_path: Path, layout: str) -> None:
    module, inputs = convolutions_module(SEEDS)
    outputs = list(on_board(module, layout, inputs, boards.remote, tmp_path).values())
    for seed, found, expected in zip(SEEDS, outputs, convolutions_by_definition(SEEDS, inputs), strict=True):
        case = f"random_convolution({seed}) = {random_convolution(seed)}"
        assert found.shape == expected.shape, case
        assert np.abs(found - expected).max() < TOLERANCE * max(1.0, np.abs(expected).max()), case


def test_random_attention(boards: Boards, tmp_path: Path) -> None:
    for seed in ATTENTION_SEEDS:
        module, inputs, expected = random_attention(seed, any_batch=False)
        (found,) = on_board(module, "auto", inputs, boards.remote, tmp_path).values()
        np.testing.assert_allclose(
            found, expected, rtol=TOLERANCE, atol=TOLERANCE, err_msg=f"random_attention({seed})"
        )


def test_a_board_without_the_instructions(boards: Boards, tmp_path: Path) -> None:
    path = tmp_path / "network.rla"
    module, _ = convolutions_module(range(1))
    relay_layout.compile(module, target=f"{TARGET}+i8mm+bf16", threads=1).save(path)
    with pytest.raises(ArtifactError) as caught:
        open_session(path, boards.remote, seconds=60)
    assert str(caught.value) == (
        f"{path}: needs CPU features bf16, i8mm which the board lacks; compile it for the board's processor"
    )


def test_the_last_target_that_a_board_can_run_is_taken(boards: Boards, tmp_path: Path) -> None:
    path = tmp_path / "network.rla"
    module, inputs = convolutions_module(range(1))
    targets = ["aarch64-cortex-a72", TARGET, f"{TARGET}+i8mm"]
    relay_layout.compile(module, target=targets, threads=1).save(path)
    session = open_session(path, boards.remote, seconds=60)
    assert session.target == TARGET
    (expected,) = convolutions_by_definition(range(1), inputs)
    (found,) = session.run(inputs).values()
    assert np.abs(found - expected).max() < TOLERANCE * np.abs(expected).max()


def test_an_artifact_for_this_machine(boards: Boards, tmp_path: Path) -> None:
    path = tmp_path / "network.rla"
    module, _ = convolutions_module(range(1))
    relay_layout.compile(module, target="x86-64-v3", threads=1).save(path)
    with pytest.raises(ArtifactError) as caught:
        open_session(path, boards.remote, seconds=60)
    assert str(caught.value) == (
        f"{path}: holds no code for the board, which is aarch64; it was built for x86-64-v3 (x86_64)"
    )
