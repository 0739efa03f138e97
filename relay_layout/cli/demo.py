"""The demonstration: ResNet-50 compiled, run in a process of its own, and compared with ONNX Runtime."""

import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from relay_layout.cli import options, values
from relay_layout.cli.main import guarded, perform
from relay_layout.cli.output import Outcome, note, progress, table
from relay_layout.errors import RelayLayoutError

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


def run(arguments: Namespace) -> Outcome:
    """Compiles, runs, measures and compares, all in a temporary folder."""
    start = time.monotonic()
    import relay_layout
    from relay_layout import host
    from relay_layout.artifact import TensorSpec
    from relay_layout.bench import run_bench
    from relay_layout.bench.compare import TOLERANCE, relative_error
    from relay_layout.bench.peers import OURS, find_peer
    from relay_layout.cli.npz import read_arrays, write_arrays
    from relay_layout.cli.run import random_inputs
    from relay_layout.models import build, export_onnx

    threads = arguments.threads or host.cpu_count()
    network = build(arguments.model)
    has_reference = find_peer(REFERENCE).missing() is None
    with tempfile.TemporaryDirectory(prefix="relay-layout-") as name:
        folder = Path(name)
        model, artifact = folder / "model.onnx", folder / "model.artifact"
        inputs, outputs = folder / "inputs.npz", folder / "outputs.npz"
        export_onnx(network, model)

        note(f"compiling {arguments.model} with threads: {threads}")
        compiled = relay_layout.compile(arguments.model, threads=threads, progress=progress)
        compiled.save(artifact)

        note("running the artifact in a new process")
        arrays = random_inputs([TensorSpec(value.name, value.shape, "float32") for value in network.inputs])
        write_arrays(str(inputs), arrays)
        _run_in_new_process(artifact, inputs, outputs, threads)

        note("measuring, each runtime in a process of its own, in turns")
        result = run_bench(
            [(arguments.model, model)],
            [REFERENCE] if has_reference else [],
            threads=threads,
            seconds=arguments.seconds,
            ours=lambda _model, _threads: artifact,
            progress=progress,
        )
        measured = result["models"][0]
        if OURS not in measured["peers"]:
            raise RelayLayoutError(measured["failures"][OURS])
        difference = None
        if has_reference:
            found = read_arrays(str(outputs))
            expected = find_peer(REFERENCE).prepare(model, threads)(arrays).run()
            difference = relative_error([found[value.name] for value in network.outputs], expected)
    report = {
        "model": arguments.model,
        "input_shape": list(network.inputs[0].shape),
        "threads": threads,
        "cpu": result["machine"]["cpu"],
        "runtimes": {
            peer: {"version": entry["version"], "median_ms": entry["median_ms"], "min_ms": entry["min_ms"]}
            for peer, entry in measured["peers"].items()
        },
        "layout_transforms": compiled.report["layout_transforms"],
        "max_relative_difference": difference,
        "agrees": (difference is not None and difference <= TOLERANCE) if has_reference else None,
        "compile_seconds": compiled.report["compile_seconds"],
        "seconds": time.monotonic() - start,
    }
    return Outcome(report, format_report(report), 1 if report["agrees"] is False else 0)


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
    return f"{heading}\n\n{table(rows)}\n\n{table(facts)}"


def _agreement(report: Mapping[str, Any]) -> str:
    agrees, difference = report["agrees"], report["max_relative_difference"]
    if agrees is None:
        return f"not checked: {REFERENCE} is not installed"
    verdict = "agrees with" if agrees else "DIFFERS from"
    largest = "not comparable" if difference is None else f"largest relative difference {difference:.1e}"
    return f"{verdict} {REFERENCE}, {largest}"


def _run_in_new_process(artifact: Path, inputs: Path, outputs: Path, threads: int) -> None:
    from relay_layout.bench.workers.process import worker_environment

    command = [sys.executable, "-m", "relay_layout", "run", str(artifact), "--json", "--repeat", "1"]
    command += ["--inputs", str(inputs), "--outputs", str(outputs), "--threads", str(threads)]
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
