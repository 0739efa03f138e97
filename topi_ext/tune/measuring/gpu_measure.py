"""Measuring kernels of a GPU: built by nvcc in worker processes, run on this machine's or on machines that a
tracker lends.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from tvm import tirx
from tvm.target import Target

from topi_ext.cuda.codegen.nvcc import find_compiler
from topi_ext.cuda.kernel import Convolution, Knobs
from topi_ext.cuda.multiprocessor import Multiprocessor
from topi_ext.cuda.workload import NhwcConvolution
from topi_ext.errors import CudaError
from topi_ext.files.temporary_folder import FOR_CODE, TemporaryFolder
from topi_ext.machine.architecture import architecture_of
from topi_ext.messages import last_line
from topi_ext.tune.measuring import gpu_workers, product_check
from topi_ext.tune.measuring.agreement import tolerance_error
from topi_ext.tune.measuring.boards import BoardRunner
from topi_ext.tune.measuring.builders import (
    Built,
    Runner,
    await_all,
    builder_pool,
    built,
    finished,
    measured,
    needing_packages,
)
from topi_ext.tune.measuring.library import Library
from topi_ext.tune.measuring.measurement import Measurement
from topi_ext.tune.measuring.needs import Needs
from topi_ext.tune.measuring.process import LocalRunner, Process
from topi_ext.tune.measuring.timing import USUAL_OF_GPUS, Timing
from topi_ext.tune.measuring.workplace import Workplace
from topi_ext.tune.records.record import WRONG


class GpuMeasurer:
    """Measures on the first GPU of the workplace, or on all that it lends at once."""

    builds_ahead = True

    def __init__(
        self, multiprocessor: Multiprocessor, workplace: Workplace, *, timing: Timing = USUAL_OF_GPUS
    ) -> None:
        """CudaError without a compiler, RelayLayoutError where the tracker does not answer, has no such
        machine, or a package is missing.
        """
        if find_compiler() is None:
            raise CudaError("tuning needs nvcc or NVRTC; install the CUDA toolkit or relay-layout[nvrtc]")
        self.cpu = workplace.cpu
        self._workplace = workplace
        self._timing = timing
        self._folder = TemporaryFolder()
        self._libraries: dict[gpu_workers.Product, Library] = {}
        self._coming: dict[gpu_workers.Product, Any] = {}
        link = tuple(workplace.link)
        self._build_one = partial(gpu_workers.build, self._folder.name, link, multiprocessor.arch)
        with needing_packages():
            self._pool = builder_pool(workplace.builders, timing.build_timeout)
            self._here: Process | None = None
            self._runner: Runner
            if workplace.remote is None:
                self._here = Process(gpu_workers.prepare)
                self._runner = LocalRunner(self._here, gpu_workers.run_here, timing)
            else:
                self._runner = BoardRunner(
                    workplace.remote,
                    threads=multiprocessor.threads,
                    timing=timing,
                    needs=Needs(architecture_of(Target("llvm"))),
                    tell=workplace.tell,
                    watch=workplace.watch,
                )

    def measure(
        self, workload: Convolution, knobs: Sequence[Knobs], rounds: int = 1
    ) -> Iterator[Measurement]:
        """As :meth:`topi_ext.tune.measuring.measurement.Measurer.measure`."""
        return measured(self._runner, self._products([(workload, one) for one in knobs]), rounds)

    def build_ahead(self, workload: Convolution, knobs: Sequence[Knobs]) -> None:
        """Begin to build what :meth:`measure` will be asked for next: while a GPU runs kernels, cores have
        nothing else to do.
        """
        for product in [(workload, one) for one in knobs]:
            if product not in self._libraries and product not in self._coming:
                self._coming[product] = self._pool.submit(self._build_one, product)

    def measure_functions(self, functions: Sequence[tirx.PrimFunc], rounds: int = 1) -> Iterator[Measurement]:
        """As :meth:`topi_ext.tune.measuring.measurement.Measurer.measure_functions`."""
        return measured(self._runner, self._build(functions), rounds)

    def result_error(self, workload: Convolution, knobs: Knobs) -> str:
        """What is wrong with a kernel's result on this machine; of another one's results nothing is said."""
        if self._here is None:
            return ""
        ((library, _),) = self._products([(workload, knobs)])
        if library is None:
            return ""  # It was built and run before: a machine that is busy says nothing of its result.
        try:
            error = self._here.ask(
                gpu_workers.error_here, library, workload, knobs, limit=self._timing.run_timeout
            )
        except TimeoutError:
            return ""
        except Exception as failure:
            return f"{WRONG}{last_line(str(failure))}"
        return product_error(workload, knobs, error)

    def close(self) -> None:
        """End the processes and remove what was built."""
        for future in self._coming.values():
            future.cancel()
        self._pool.shutdown(wait=False)
        self._runner.close()
        self._folder.cleanup()

    def _products(self, products: Sequence[gpu_workers.Product]) -> list[Built]:
        """Each is built once: the best are run again and checked later, and nvcc takes seconds."""
        missing = [product for product in dict.fromkeys(products) if product not in self._libraries]
        coming = {product: self._coming.pop(product) for product in missing if product in self._coming}
        rest = [product for product in missing if product not in coming]
        found = dict(zip(rest, self._build(rest), strict=True))
        await_all(coming.values(), self._workplace.stop)
        found |= {product: finished(future, self._timing.build_timeout) for product, future in coming.items()}
        self._libraries |= {product: library for product, (library, _) in found.items() if library}
        return [found.get(product) or (self._libraries[product], "") for product in products]

    def _build(self, jobs: Sequence[gpu_workers.Job]) -> list[Built]:
        self._folder.check_room(FOR_CODE)
        return built(self._pool, self._build_one, jobs, self._timing.build_timeout, self._workplace.stop)


def product_error(workload: NhwcConvolution, knobs: Knobs, error: float) -> str:
    """What is wrong with a result that is so far from what it should be; empty where rounding explains it."""
    return tolerance_error(error, product_check.allowed_error(workload, knobs))
