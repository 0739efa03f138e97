"""Measuring relay-layout and other runtimes on the same models, in one run, with equal threads.

:mod:`.benchmark` measures whole models, each of :mod:`.peers` in a process of its own (:mod:`.workers`).
:mod:`.layers` are single layers beside oneDNN, :mod:`.cuda` is a GPU beside cuDNN, and :mod:`.onnx_to_torch`
gives torch the same models.
"""

from relay_layout.bench.benchmark import run_bench
from relay_layout.bench.results import BenchResult
from relay_layout.bench.table import format_table

__all__ = ["BenchResult", "format_table", "run_bench"]
