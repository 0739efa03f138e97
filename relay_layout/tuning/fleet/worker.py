"""The process that tunes for one key and target; it ends with the one that started it."""

import multiprocessing
import os
import signal
import threading
import time
import warnings
from _thread import interrupt_main
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

from relay_layout.errors import RelayLayoutError
from relay_layout.tuning.fleet.messages import Failed, Finished, LogLine, Started, TaskStarted
from relay_layout.tuning.job import Listener, Tuning, TuningJob
from relay_layout.tuning.measurers import remote_measurer
from relay_layout.tuning.tasks import describe
from topi_ext.messages import system_message
from topi_ext.tune.measuring.measurement import Measurement, Measurer
from topi_ext.tune.measuring.tracker import RemoteDevice
from topi_ext.workloads.convolution import ConvolutionWorkload

_LAST_KERNELS_SECONDS = 60.0
"""How long the kernels that are running may take after the coordinator is gone."""


def work(job: TuningJob, remote: RemoteDevice, builders: int, connection: Connection) -> None:
    """Tune, and say on ``connection`` what happens; whatever comes from there, its end too, means to stop."""
    # Ctrl-C in a terminal reaches every process, and it is for the first of them to say what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    warnings.simplefilter("ignore")
    listener = Listener(
        tell=lambda line: connection.send(LogLine(line)),
        kernel=connection.send,
        transform=connection.send,
        stop=connection.poll,
    )
    try:
        tuning = Tuning.prepare(job, job.resolved_target(), listener)
        connection.send(Started(len(tuning.found.tasks)))
        measurer = remote_measurer(
            tuning.target,
            remote,
            tell=listener.tell,
            watch=connection.send,
            stop=listener.stop,
            builders=builders,
        )
        announced = _Announced(measurer, lambda name: connection.send(TaskStarted(name)))
        connection.send(Finished(tuning.run(announced, listener)))
    except SystemExit:
        os._exit(1)  # Otherwise Python would wait for the threads that wait for boards.
    except BrokenPipeError:
        os._exit(1)  # Nobody listens any more.
    except RelayLayoutError as error:
        connection.send(Failed(str(error)))
    except OSError as error:
        connection.send(Failed(system_message(error)))
    except Exception as error:
        connection.send(Failed(f"{type(error).__name__}: {error}", internal=True))


@dataclass
class _Announced:
    """A measurer that says what it measures next."""

    measurer: Measurer
    announce: Callable[[str], None]

    @property
    def cpu(self) -> str:
        return self.measurer.cpu

    @cpu.setter
    def cpu(self, name: str) -> None:
        self.measurer.cpu = name

    @property
    def builds_ahead(self) -> bool:
        return self.measurer.builds_ahead

    def build_ahead(self, workload: Any, knobs: Sequence[Any]) -> None:
        self.measurer.build_ahead(workload, knobs)

    def measure(
        self, workload: ConvolutionWorkload, knobs: Sequence[Any], rounds: int = 1
    ) -> Iterator[Measurement]:
        self.announce(describe(workload))
        return self.measurer.measure(workload, knobs, rounds)

    def measure_functions(self, functions: Sequence[Any], rounds: int = 1) -> Iterator[Measurement]:
        self.announce("layout transforms")
        return self.measurer.measure_functions(functions, rounds)

    def result_error(self, workload: ConvolutionWorkload, knobs: Any) -> str:
        return self.measurer.result_error(workload, knobs)

    def close(self) -> None:
        self.measurer.close()


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(1)


def _end_with_parent() -> None:
    """At once where the kernels that ran last do not end: with the parent the pipe, and so tuning, ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    time.sleep(_LAST_KERNELS_SECONDS)
    interrupt_main(signal.SIGTERM)
