"""The demonstration: ResNet-50 compiled, run in a process of its own, and compared with ONNX Runtime."""

import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from relay_layout.cli import options, values
from relay_layout.cli.main import guarded, perform
from relay_layout.cli.output import Outcome, note, progress
from relay_layout.columns import columns
from relay_layout.errors import RelayLayoutError
from topi_ext.files.temporary_folder import TemporaryFolder

if TYPE_CHECKING:
    from relay_layout.models.network import Network

REFERENCE = "onnxruntime"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the demonstration; returns 1 if the outputs differ from ONNX Runtime's."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = options.Parser("demo", "Compile and run a network, and compare it with ONNX Runtime.")
    parser.prog = "python -m relay_layout.cli.demo"
    parser.add_argument("--model", default="resnet50", metavar="MODEL", help="a built-in network (resnet50)")
    parser.add_argument(
        "--seconds",
        type=values.seconds,
        default=5.0,
        metavar="S",
        help="running time to spend on each runtime (5)",
    )
    options.add(parser, options.THREADS)
    return guarded(lambda: perform(parser, words, run), with_traceback="--traceback" in words)


class _Files(NamedTuple):
    """What one process writes for another."""

    model: Path
    artifact: Path
    inputs: Path
    outputs: Path


def _files_in(folder: Path) -> _Files:
    return _Files(
        folder / "model.onnx", folder / "model.artifact", folder / "inputs.npz", folder / "outputs.npz"
    )


def run(arguments: Namespace) -> Outcome:
    """Compiles, runs, measures and compares, all in a temporary folder."""
    start = time.monotonic()
    import relay_layout
    from relay_layout.bench.compare import TOLERANCE
    from relay_layout.environment import host
    from relay_layout.models import build, export_onnx

    threads = arguments.threads or host.cpu_count()
    network = build(arguments.model)
    with TemporaryFolder() as name:
        files = _files_in(Path(name))
        export_onnx(network, files.model)
        note(f"compiling {arguments.model} with threads: {threads}")
        compiled = relay_layout.compile(arguments.model, threads=threads, progress=progress)
        compiled.save(files.artifact)
        note("running the artifact in a new process")
        arrays = _write_inputs(network, files)
        _run_in_new_process(files, threads)
        note("measuring, each runtime in a process of its own, in turns")
        machine, runtimes = _measure(arguments.model, files, threads, arguments.seconds)
        difference = _difference(network, files, arrays, threads) if _has_reference() else None
    report = {
        "model": arguments.model,
        "input_shape": list(network.inputs[0].shape),
        "threads": threads,
        "cpu": machine["cpu"],
        "runtimes": {
            peer: {"version": entry["version"], "median_ms": entry["median_ms"], "min_ms": entry["min_ms"]}
            for peer, entry in runtimes.items()
        },
        "layout_transforms": compiled.report["layout_transforms"],
        "max_relative_difference": difference,
        "agrees": (difference is not None and difference <= TOLERANCE) if _has_reference() else None,
        "compile_seconds": compiled.report["compile_seconds"],
        "seconds": time.monotonic() - start,
    }
    return Outcome(report, format_report(report), 1 if report["agrees"] is False else 0)


def _has_reference() -> bool:
    from relay_layout.bench.peers import find_peer

    return find_peer(REFERENCE).missing() is None


def _write_inputs(network: "Network", files: _Files) -> dict[str, Any]:
    from relay_layout.artifact import TensorSpec
    from relay_layout.cli.npz import write_arrays
    from relay_layout.cli.run import random_inputs

    arrays = random_inputs([TensorSpec(value.name, value.shape, "float32") for value in network.inputs])
    write_arrays(str(files.inputs), arrays)
    return arrays


def _measure(
    model: str, files: _Files, threads: int, seconds: float
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The machine, and each runtime's version and times; RelayLayoutError where ours cannot run."""
    from relay_layout.bench import run_bench
    from relay_layout.bench.peers import OURS

    result = run_bench(
        [(model, files.model)],
        [REFERENCE] if _has_reference() else [],
        threads=threads,
        seconds=seconds,
        ours=lambda _model, _threads: files.artifact,
        progress=progress,
    )
    measured = result["models"][0]
    if OURS not in measured["peers"]:
        raise RelayLayoutError(measured["failures"][OURS])
    return result["machine"], measured["peers"]


def _difference(network: "Network", files: _Files, arrays: Mapping[str, Any], threads: int) -> float | None:
    """The largest of the outputs from those of the reference; None where they cannot be compared."""
    from relay_layout.bench.compare import relative_error
    from relay_layout.bench.peers import find_peer
    from relay_layout.cli.npz import read_arrays

    found = read_arrays(str(files.outputs))
    expected = find_peer(REFERENCE).prepare(files.model, threads)(arrays)()
    return relative_error([found[value.name] for value in network.outputs], expected)


def format_report(report: Mapping[str, Any]) -> str:
    """The report of a demonstration for people."""
    heading = (
        f"{report['model']}, float32 {report['input_shape']}, threads: {report['threads']}, {report['cpu']}"
    )
    rows = [["latency", "median ms", "least ms"]]
    for name, entry in report["runtimes"].items():
        rows.append([f"{name} {entry['version']}", f"{entry['median_ms']:.2f}", f"{entry['min_ms']:.2f}"])
    facts = [
        ["layout transforms left", str(report["layout_transforms"])],
        ["agreement", _agreement(report)],
        ["compiled in", f"{report['compile_seconds']:.1f} s"],
        ["all of this", f"{report['seconds']:.1f} s"],
    ]
    return f"{heading}\n\n{columns(rows)}\n\n{columns(facts)}"


def _agreement(report: Mapping[str, Any]) -> str:
    agrees, difference = report["agrees"], report["max_relative_difference"]
    if agrees is None:
        return f"not checked: {REFERENCE} is not installed"
    verdict = "agrees with" if agrees else "DIFFERS from"
    largest = "not comparable" if difference is None else f"largest relative difference {difference:.1e}"
    return f"{verdict} {REFERENCE}, {largest}"


def _run_in_new_process(files: _Files, threads: int) -> None:
    from relay_layout.bench.workers.process import worker_environment

    command = [sys.executable, "-m", "relay_layout", "run", str(files.artifact), "--json", "--repeat", "1"]
    command += ["--inputs", str(files.inputs), "--outputs", str(files.outputs), "--threads", str(threads)]
    done = subprocess.run(
        command,
        env=worker_environment(threads),
        stderr=subprocess.PIPE,
        check=False,
        text=True,
        stdout=subprocess.DEVNULL,
    )
    if done.returncode:
        words = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise RelayLayoutError(f"the run in a new process failed: {words[-1]}")


if __name__ == "__main__":
    sys.exit(main())
