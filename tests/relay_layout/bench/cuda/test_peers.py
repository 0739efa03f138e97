"""Calls as CUDA graphs, of a torch that is made up, and the settings of the true one."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import tvm_ffi

from relay_layout.bench.cuda.peers import captured, fastest_kernels

DEFAULT, SIDE, CAPTURE = 0, 16, 32


class Torch:
    """What :func:`captured` asks of torch, with the number of the current stream."""

    def __init__(self) -> None:
        self.current = DEFAULT
        self.replayed = 0

    @property
    def cuda(self) -> Any:
        return self

    def Stream(self) -> Any:
        return SimpleNamespace(cuda_stream=SIDE, wait_stream=lambda other: None)

    def current_stream(self) -> Any:
        return SimpleNamespace(cuda_stream=self.current, wait_stream=lambda other: None)

    def synchronize(self) -> None:
        assert self.current == DEFAULT

    def CUDAGraph(self) -> Any:
        def replay() -> None:
            self.replayed += 1

        return SimpleNamespace(replay=replay)

    @contextmanager
    def _on(self, stream: int) -> Iterator[None]:
        self.current = stream
        yield
        self.current = DEFAULT

    def stream(self, side: Any) -> Any:
        return self._on(side.cuda_stream)

    def graph(self, graph: Any) -> Any:
        return self._on(CAPTURE)


def test_kernels_of_tvm_are_captured_with_those_of_torch() -> None:
    """Some calls beforehand, on another stream; and TVM launches where torch captures."""
    torch, streams = Torch(), []
    device = tvm_ffi.device("cuda", 0)
    before = tvm_ffi.get_raw_stream(device)

    def call() -> None:
        streams.append((torch.current, tvm_ffi.get_raw_stream(device)))

    replay = captured(torch, call, 2)
    assert streams == [(SIDE, SIDE)] * 3 + [(CAPTURE, CAPTURE)] * 2
    assert tvm_ffi.get_raw_stream(device) == before
    replay()
    assert torch.replayed == 1
    assert len(streams) == 5


def settings(torch: Any) -> tuple[bool, bool, bool]:
    """Whether cuDNN tries its kernels, and convolutions and matrices are in TF32."""
    cudnn = torch.backends.cudnn
    return cudnn.benchmark, cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32


@pytest.mark.parametrize("tf32", [False, True])
def test_settings_to_measure_with(tf32: bool) -> None:
    torch = pytest.importorskip("torch")
    with fastest_kernels(torch, tf32=tf32):
        assert settings(torch) == (True, tf32, tf32)


@pytest.mark.parametrize("tf32", [False, True])
def test_settings_are_those_of_before_even_after_an_error(tf32: bool) -> None:
    torch = pytest.importorskip("torch")
    before = settings(torch)
    with pytest.raises(RuntimeError, match=r"^out of memory$"), fastest_kernels(torch, tf32=tf32):
        raise RuntimeError("out of memory")
    assert settings(torch) == before
