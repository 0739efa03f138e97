"""What measuring on a GPU needs and no GPU makes: artifacts, reference outputs, machine code of layers.

Made in processes of their own, as many as there are cores, before the GPU is touched. One that crashes takes
no more with it than what it was making.
"""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tvm.support.popen_pool import PopenPoolExecutor

import relay_layout
from relay_layout.ir import Extent
from relay_layout.models import build, to_onnx, to_relax
from relay_layout.targets import CudaTarget, require_cuda, resolve_target
from topi_ext.cuda.codegen.build import machine_code_of
from topi_ext.cuda.kernel import Convolution, compile_module, kernel_module
from topi_ext.files.temporary_folder import TemporaryFolder

SEED = 0


@dataclass(frozen=True)
class Case:
    """A built-in network of one batch in one precision, for a target by name."""

    model: str
    batch: int
    precision: str
    target: str
    records: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.model} batch {self.batch} {self.precision}"

    def artifact(self, folder: Path) -> Path:
        return folder / f"{self.model}-{self.batch}-{self.precision}.rla"


class Prepared:
    """Everything that is being made; each is waited for when it is asked for."""

    def __init__(self, folder: Path, workers: int | None = None) -> None:
        """``workers`` processes, as many as there are cores by default."""
        self.folder = folder
        # A child that never initialises CUDA cannot take memory of the GPU.
        self._pool = PopenPoolExecutor(
            max_workers=workers or len(os.sched_getaffinity(0)), initializer=_without_gpu
        )
        self._artifacts: dict[Case, Future[Path]] = {}
        self._references: dict[tuple[str, int], Future[Path]] = {}
        self._layers: dict[tuple[Convolution, str, str], Future[dict[str, bytes]]] = {}

    def start(self, cases: Sequence[Case], references: Sequence[tuple[str, int]]) -> None:
        """Begin with reference outputs and artifacts, in this order."""
        for model, batch in references:
            if (model, batch) not in self._references:
                self._references[model, batch] = self._pool.submit(reference, model, batch, self.folder)
        for case in cases:
            if case not in self._artifacts:
                self._artifacts[case] = self._pool.submit(compile_case, case, self.folder)

    def start_layers(self, workloads: Sequence[Convolution], case: Case) -> None:
        """Begin with the machine code of convolution layers, by the target and precision of ``case``."""
        for workload in workloads:
            key = workload, case.target, case.precision
            if key not in self._layers:
                self._layers[key] = self._pool.submit(layer_code, workload, case)

    def wait(self, seconds: float, tell: Callable[[str], None]) -> None:
        """Until all of it is there, or for so long; says how much there is."""
        futures = self._futures()
        begin = time.monotonic()
        wait(futures, max(0.0, seconds))
        done = sum(future.done() for future in futures)
        tell(f"prepared {done} of {len(futures)} in {time.monotonic() - begin:.0f} s")

    def artifact(self, case: Case, seconds: float) -> Path:
        """The file of a case; TimeoutError of ``concurrent.futures`` if it takes longer, as of others,
        ChildProcessError if its process crashed, and whatever compiling it raised.
        """
        return self._artifacts[case].result(max(0.0, seconds))

    def reference(self, model: str, batch: int, seconds: float) -> list[np.ndarray]:
        """Outputs of the seeded input in the model's order, float32 by torch on the CPU."""
        with np.load(self._references[model, batch].result(max(0.0, seconds))) as found:
            return [found[name] for name in found.files]

    def layer(self, workload: Convolution, case: Case, seconds: float) -> dict[str, bytes]:
        """The machine code of a layer by the digest of its source."""
        return self._layers[workload, case.target, case.precision].result(max(0.0, seconds))

    def close(self) -> None:
        """End without what has not begun; what is being made ends with its processes."""
        for future in self._futures():
            future.cancel()
        self._pool.shutdown(wait=False)

    def _futures(self) -> list[Future[Any]]:
        return [*self._artifacts.values(), *self._references.values(), *self._layers.values()]


def _without_gpu() -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def target_of(case: Case) -> CudaTarget:
    """TargetError for a target or precision that is not known, and for a CPU."""
    return require_cuda(
        resolve_target(case.target, precision=case.precision, tuning_records=list(case.records))
    )


def compile_case(case: Case, folder: Path) -> Path:
    """Compile an artifact into ``folder``."""
    path = case.artifact(folder)
    module = to_relax(build(case.model, batch=case.batch))
    relay_layout.compile(module, target=target_of(case)).save(path)
    return path


def seeded_input(shape: Sequence[Extent]) -> np.ndarray:
    """What artifacts and references are fed."""
    return np.random.default_rng(SEED).standard_normal([int(extent) for extent in shape], np.float32)


def torch_module(model: str, batch: int) -> Any:
    """The network in torch, for inference on the CPU, in float32."""
    from relay_layout.bench.onnx_to_torch.module import convert

    with TemporaryFolder() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(to_onnx(build(model, batch=batch)).SerializeToString())
        return convert(path).eval()


def reference(model: str, batch: int, folder: Path) -> Path:
    """A file of the outputs in the model's order."""
    import torch

    torch.set_num_threads(1)
    (image,) = build(model, batch=batch).inputs
    with torch.inference_mode():
        found = torch_module(model, batch)(torch.from_numpy(seeded_input(image.shape)))
    path = folder / f"{model}-{batch}.npz"
    np.savez(path, *(value.numpy() for value in found))
    return path


def layer_code(workload: Convolution, case: Case) -> dict[str, bytes]:
    """The machine code of a layer by its chosen knobs, by the digest of its source."""
    target = target_of(case)
    knobs = target.kernels.choose(workload).knobs
    chip = target.multiprocessor
    built = compile_module(kernel_module(workload, knobs, chip), chip)
    return {source: cubin.code for source, cubin in machine_code_of(built, chip.arch).items()}
