"""Measuring kernels of a CPU: built in worker processes, run in one here or on boards over RPC.

A kernel that crashes, hangs or does not compile costs a worker and becomes an error text.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

import tvm
from tvm import tirx

from topi_ext.errors import RelayLayoutError
from topi_ext.files.temporary_folder import FOR_CODE, TemporaryFolder
from topi_ext.kernel import scheduled_kernel
from topi_ext.machine.architecture import architecture_of
from topi_ext.machine.capabilities import capabilities
from topi_ext.machine.processor import processor_of
from topi_ext.messages import last_line
from topi_ext.tune.measuring import workers
from topi_ext.tune.measuring.agreement import Kernel, difference, reference_knobs, tolerance, tolerance_error
from topi_ext.tune.measuring.boards import BoardRunner
from topi_ext.tune.measuring.builders import (
    Built,
    Runner,
    builder_pool,
    built,
    measured,
    needing_packages,
)
from topi_ext.tune.measuring.library import Library
from topi_ext.tune.measuring.measurement import Measurement
from topi_ext.tune.measuring.needs import Needs
from topi_ext.tune.measuring.process import LocalRunner, Process
from topi_ext.tune.measuring.timing import USUAL, Timing
from topi_ext.tune.measuring.workplace import Workplace
from topi_ext.tune.records.record import WRONG
from topi_ext.workloads.convolution import ConvolutionWorkload


class CpuMeasurer:
    """Measures on a CPU of the workplace, or on all that it lends at once."""

    builds_ahead = False

    def __init__(
        self,
        target: tvm.target.Target,
        workplace: Workplace,
        *,
        threads: int,
        features: Collection[str] = (),
        timing: Timing = USUAL,
    ) -> None:
        """Remote machines are asked for the CPU ``features`` of the target, by LLVM's names.

        RelayLayoutError where the tracker does not answer, has no such machine, or a package is missing, and
        where nothing can be linked.
        """
        self.cpu = workplace.cpu
        self._target = target
        self._workplace = workplace
        self._timing = timing
        self._folder = TemporaryFolder()
        with needing_packages():
            self._pool = builder_pool(workplace.builders, timing.build_timeout)
            self._runner: Runner
            if workplace.remote is None:
                prepare = partial(workers.prepare_worker, threads)
                self._runner = LocalRunner(Process(prepare), workers.run_here, timing)
                return
            try:
                self._runner = BoardRunner(
                    workplace.remote,
                    threads=threads,
                    timing=timing,
                    needs=Needs(architecture_of(target), frozenset(features), self._probe()),
                    tell=workplace.tell,
                    watch=workplace.watch,
                )
            except BaseException:
                # What is interrupted here is closed by nobody, and TVM's pools do not end by themselves.
                self._pool.shutdown(wait=False)
                raise

    def _probe(self) -> Library | None:
        """What remote machines load to tell their features; None for a target of whose they cannot."""
        function = capabilities(self._target)
        if function is None:
            return None
        ((library, error),) = self._build([function])
        if library is None:
            raise RelayLayoutError(f"no library can be built for the target: {error}")
        return library

    def measure(
        self, workload: ConvolutionWorkload, knobs: Sequence[Any], rounds: int = 1
    ) -> Iterator[Measurement]:
        """As :meth:`Measurer.measure`; RelayLayoutError where the remote machine is gone."""
        jobs: list[tirx.PrimFunc | str] = []
        for one in knobs:
            try:
                jobs.append(scheduled_kernel(workload, one))
            except (RelayLayoutError, RuntimeError) as error:
                jobs.append(f"schedule: {last_line(str(error))}")
        return self._measure(jobs, rounds)

    def build_ahead(self, workload: ConvolutionWorkload, knobs: Sequence[Any]) -> None:
        """Never called, as kernels are not built ahead."""

    def measure_functions(self, functions: Sequence[tirx.PrimFunc], rounds: int = 1) -> Iterator[Measurement]:
        """As :meth:`Measurer.measure_functions`; RelayLayoutError where the remote machine is gone."""
        return self._measure(functions, rounds)

    def _measure(self, jobs: Sequence[tirx.PrimFunc | str], rounds: int) -> Iterator[Measurement]:
        """One measurement for each job: a scheduled function, or the message of an error that it had."""
        return measured(self._runner, self._build(jobs), rounds)

    def result_error(self, workload: ConvolutionWorkload, knobs: Any) -> str:
        """As :meth:`Measurer.result_error`; empty for remote machines, whose results are not checked."""
        from tvm.support.popen_pool import StatusKind

        reference = reference_knobs(workload, processor_of(self._target))
        if self._workplace.remote is not None or knobs == reference:
            return ""
        both = [knobs, reference]
        outcomes = self._build([scheduled_kernel(workload, one) for one in both])
        kernels = [
            Kernel(library.path, one) for (library, _), one in zip(outcomes, both, strict=True) if library
        ]
        if len(kernels) < len(both):
            return ""  # It was built and run before: a machine that is busy says nothing of its result.
        compare = partial(_difference, workload)
        (result,) = self._pool.map_with_error_catching(compare, [kernels])
        if result.status == StatusKind.TIMEOUT:
            return ""
        if result.status != StatusKind.COMPLETE:
            return f"{WRONG}{last_line(str(result.value))}"
        return tolerance_error(result.value, tolerance(workload, knobs))

    def close(self) -> None:
        """End the processes and remove what was built."""
        self._pool.shutdown(wait=False)
        self._runner.close()
        self._folder.cleanup()

    def _build(self, jobs: Sequence[tirx.PrimFunc | str]) -> list[Built]:
        """All are built before any is run. RelayLayoutError where there is no room for them."""
        # What a full disk lets fail says nothing of the kernels, which would count as tried.
        self._folder.check_room(FOR_CODE)
        export = partial(workers.build_and_export, self._folder.name, tuple(self._workplace.link))
        build = partial(_library, export, self._target)
        return built(self._pool, build, jobs, self._timing.build_timeout, self._workplace.stop)


def _difference(workload: ConvolutionWorkload, kernels: Sequence[Kernel]) -> float:
    return difference(workload, *kernels)


def _library(build: Any, target: Any, function: tirx.PrimFunc) -> Library:
    path = str(build(workers.named(function), target))
    return Library(path, [(tuple(map(int, tensor.shape)), str(tensor.dtype)) for tensor in function.params])
