"""``relay-layout run ARTIFACT``."""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from relay_layout.cli import options, values
from relay_layout.cli.output import Outcome, one_line, progress
from relay_layout.columns import columns
from relay_layout.errors import InputError
from relay_layout.report.files import check_report_path, read_report, write_report

if TYPE_CHECKING:
    import numpy as np

    from relay_layout.artifact import TensorSpec
    from relay_layout.runtime.remote import RemoteSession
    from relay_layout.runtime.session import Session
    from topi_ext.tune.measuring.tracker import RemoteDevice

    Array = np.ndarray[Any, np.dtype[Any]]

SEED = 0
_WARM_UP_RUNS = 3
_WARM_UP_SECONDS = 1.0


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("artifact", metavar="ARTIFACT", help="what relay-layout compile wrote")
    parser.add_argument(
        "--inputs", metavar="IN.npz", help="one array per input name; otherwise made from a fixed seed"
    )
    parser.add_argument("--outputs", metavar="OUT.npz", help="the file to write the outputs to, by name")
    parser.add_argument(
        "--repeat", type=values.positive, default=10, metavar="N", help="how many runs to time (10)"
    )
    parser.add_argument(
        "--target", metavar="NAME", help="which of the artifact's targets; otherwise the last that runs here"
    )
    parser.add_argument(
        "--profile", action="store_true", help="also time every kernel, in its place between the others"
    )
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="with --profile: the report of this artifact's compilation, to put the times into",
    )
    parser.add_argument(
        "--permute",
        action="store_true",
        help="copy inputs that lie in another memory order than declared, instead of refusing them",
    )
    options.add(
        parser,
        options.THREADS,
        *options.remote("run on a machine that this tracker lends; times are taken there"),
    )


def run(arguments: Namespace) -> Outcome:
    """Runs the artifact; the outputs are those of the first run, the times those of later ones."""
    remote = options.remote_device(arguments)
    _check(arguments, remote)
    known = None if arguments.report is None else read_report(arguments.report)
    from relay_layout.cli.npz import read_arrays, write_arrays

    given = None if arguments.inputs is None else read_arrays(arguments.inputs)
    session, time_runs = _open(arguments, remote)
    inputs = random_inputs(session.inputs) if given is None else given
    progress("running")
    try:
        outputs = session.run(inputs)
    except InputError as error:
        raise InputError(f"{arguments.inputs}: {error}" if given is not None else str(error)) from None
    latency = time_runs(inputs)
    if arguments.outputs is not None:
        write_arrays(arguments.outputs, outputs)
    found = [
        {"name": name, "shape": list(array.shape), "dtype": array.dtype.name}
        for name, array in outputs.items()
    ]
    report: dict[str, Any] = {
        "target": session.target,
        "latency_ms": latency,
        "repeat": arguments.repeat,
        "outputs": found,
    }
    if arguments.profile:
        from relay_layout.cli.profile_report import profile_of

        progress("profiling")
        report["profile"] = profile_of(session, inputs, arguments.repeat, known)
    if known is not None:
        write_report(arguments.report, known)
    return Outcome(report, format_report(report))


def _check(arguments: Namespace, remote: "RemoteDevice | None") -> None:
    """Raises InputError for options that contradict one another and for files that cannot be written."""
    if arguments.outputs is not None:
        sources = [arguments.artifact, *([arguments.inputs] if arguments.inputs is not None else [])]
        options.check_writable("--outputs", arguments.outputs, sources)
        if not arguments.outputs.endswith(".npz"):
            raise InputError(f"--outputs: {arguments.outputs} must end in .npz (arrays by name)")
    if remote is not None and (arguments.profile or arguments.permute):
        option = "--profile" if arguments.profile else "--permute"
        raise InputError(f"{option} works on this machine only; leave it out with --rpc-tracker")
    if arguments.report is not None:
        if not arguments.profile:
            raise InputError("--report needs --profile, which measures what goes into it")
        options.check_writable("--report", arguments.report, [arguments.artifact])
        check_report_path(arguments.report)
        if arguments.outputs is not None:
            options.check_apart("--outputs", arguments.outputs, "--report", arguments.report)


def _open(
    arguments: Namespace, remote: "RemoteDevice | None"
) -> "tuple[Session | RemoteSession, Callable[[Mapping[str, Array]], dict[str, float]]]":
    """The artifact, loaded here or on a board, and what times it with given inputs."""
    path, repeat = arguments.artifact, arguments.repeat
    choice: dict[str, Any] = {"threads": arguments.threads, "target": arguments.target}
    if remote is None:
        import relay_layout

        order: dict[str, Any] = {"permute": True} if arguments.permute else {}
        here = relay_layout.load(path, **choice, **order)
        return here, lambda inputs: measure(lambda: here.run(inputs), repeat)
    from relay_layout.runtime.remote import open_session

    board = open_session(path, remote, **choice)
    return board, lambda inputs: summary(board.seconds(inputs, repeat))


def random_inputs(specs: "Sequence[TensorSpec]") -> "dict[str, Array]":
    """An array per input, in its memory order, the same at every call; a dimension without a number is 1.

    Floating point inputs are normally distributed, 8-bit ones take all values, other integers and
    booleans are 0 or 1, which is valid for indices too.
    """
    import numpy as np

    generator = np.random.default_rng(SEED)
    arrays = {}
    for spec in specs:
        kind = np.dtype(spec.dtype)
        shape = [1 if isinstance(extent, str) else extent for extent in spec.shape]
        if kind.kind == "f":
            arrays[spec.name] = np.asarray(generator.standard_normal(shape), dtype=kind)
        else:
            low, high = (np.iinfo(kind).min, np.iinfo(kind).max) if kind in (np.int8, np.uint8) else (0, 1)
            arrays[spec.name] = np.asarray(generator.integers(low, high, shape, endpoint=True), dtype=kind)
        if spec.memory_order != tuple(range(len(shape))):
            lying = np.ascontiguousarray(arrays[spec.name].transpose(spec.memory_order))
            arrays[spec.name] = lying.transpose(np.argsort(spec.memory_order))
    return arrays


def measure(
    run_once: Callable[[], object], repeat: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """The least and the median time of ``repeat`` runs in milliseconds, after a few that do not count."""
    limit = clock() + _WARM_UP_SECONDS
    for _ in range(_WARM_UP_RUNS):
        run_once()
        if clock() > limit:
            break
    times = []
    for _ in range(repeat):
        start = clock()
        run_once()
        times.append(clock() - start)
    return summary(times)


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """The least and the median time in milliseconds."""
    import statistics

    return {"min": min(seconds) * 1e3, "median": statistics.median(seconds) * 1e3}


def format_report(report: Mapping[str, Any]) -> str:
    """The report of a run for people."""
    latency, repeat = report["latency_ms"], report["repeat"]
    times = f"{latency['median']:.3f} ms median, {latency['min']:.3f} ms least of {repeat} runs"
    rows = [["latency", times], ["target", one_line(report["target"])]]
    for output in report["outputs"]:
        rows.append([f"output {one_line(output['name'])}", f"{output['dtype']} {output['shape']}"])
    if "profile" not in report:
        return columns(rows)
    from relay_layout.cli.profile_report import format_profile

    return f"{columns(rows)}\n{format_profile(report['profile'])}"
