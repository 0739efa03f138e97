"""``relay-layout bench MODEL...``."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relay_layout.cli import options, values
from relay_layout.cli.interrupts import INTERRUPTED, noted_interrupts
from relay_layout.cli.output import Outcome, note, one_line, progress
from relay_layout.errors import InputError
from topi_ext.files.temporary_folder import TemporaryFolder
from topi_ext.messages import system_message

if TYPE_CHECKING:
    from relay_layout.bench import BenchResult

NOT_WRITTEN = 2
"""The exit status where a file could not be written."""

MODEL_SECONDS, LAYER_SECONDS = 5.0, 0.5
"""Running time that each peer gets for a model, and for a layer."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument(
        "models",
        nargs="+",
        metavar="MODEL",
        help="an .onnx file, or a built-in network such as resnet50",
    )
    parser.add_argument(
        "--peers",
        type=_peers,
        metavar="PEER,PEER",
        help="of onnxruntime, openvino, torch and tvm, or none; otherwise all that are installed; "
        "untuned is relay-layout without tuning records; untuned-bf16, openvino-bf16 and torch-bf16 are "
        "these in bfloat16; package.module:attribute is one of your own",
    )
    options.add(parser, options.THREADS, options.PRECISION)
    parser.add_argument(
        "--layers",
        action="store_true",
        help="measure every distinct convolution and dense layer on its own, beside oneDNN",
    )
    parser.add_argument(
        "--any-size",
        action="store_true",
        help="measure networks that take images, signals, volumes or texts of any number and size, on those "
        "of the model's shape or of --input-shape",
    )
    parser.add_argument(
        "--seconds",
        type=values.seconds,
        metavar="S",
        help="running time to spend on each model and peer (5), or on each layer and peer (0.5)",
    )
    parser.add_argument(
        "--neighbours",
        type=values.positive,
        metavar="N",
        help="measure beside N processes of low priority that never pause, as on a machine with other work",
    )
    options.add(parser, *options.RECORDS)
    parser.add_argument(
        "--save", metavar="FILE", help="write the result to a file after each model, to compare with later"
    )
    parser.add_argument(
        "--against",
        metavar="FILE",
        help="compare with a result that --save wrote; the exit status is 1 where a model became slower",
    )
    options.add(parser, options.INPUT_SHAPE)


def run(arguments: Namespace) -> Outcome:
    """Compares; the exit status is 1 where relay-layout failed, computed something else or became slower.

    It is 130 where an interrupt ended it, and what was measured until then is printed; 2 where the result
    could not be saved.
    """
    if arguments.save is not None:
        options.check_writable("--save", arguments.save, options.sources(arguments))
    shapes = options.input_shapes(arguments)
    if arguments.layers:
        return _run_layers(arguments, shapes)
    if arguments.neighbours is not None and (arguments.save is not None or arguments.against is not None):
        raise InputError("--save and --against are for a machine by itself; leave out --neighbours")
    from relay_layout.bench import format_table, history
    from relay_layout.environment import host
    from relay_layout.targets import resolve_target

    # Before a model is prepared for every peer.
    resolve_target(precision=arguments.precision)
    threads = arguments.threads or host.cpu_count()
    saved = None
    if arguments.against is not None:
        saved = history.load(arguments.against)
        history.check_comparable(arguments.against, saved, threads)
    saving = None if arguments.save is None else _Saving(arguments.save)
    result, interrupts = _measured(arguments, shapes, threads, saving)
    failed = subject_failed(result)
    if interrupts:
        note(f"interrupted: {len(result['models'])} of {len(arguments.models)} models are measured")
    if saved is None:
        return Outcome(result, format_table(result), _status(interrupts, failed, saving))
    found = history.changes(saved["result"], result)
    failed = failed or any(each["verdict"] == "slower" for each in found)
    text = f"{format_table(result)}\n\n{history.format_changes(found, saved['time'])}"
    return Outcome({**result, "against": found}, text, _status(interrupts, failed, saving))


def _measured(
    arguments: Namespace,
    shapes: Mapping[str, Sequence[int]] | None,
    threads: int,
    saving: "_Saving | None",
) -> tuple["BenchResult", Sequence[int]]:
    """The latencies of all models, or of those before the first interrupt; and the interrupts."""
    from relay_layout.bench import run_bench
    from relay_layout.bench.compare import ROUNDED_TOLERANCE
    from relay_layout.bench.neighbours import neighbours

    rounded = arguments.precision != "fp32"
    with (
        TemporaryFolder() as folder,
        neighbours(arguments.neighbours or 0),
        noted_interrupts() as interrupts,
    ):
        files = model_files(arguments.models, shapes or {}, Path(folder))
        result = run_bench(
            [(f"{label} {arguments.precision}" if rounded else label, path) for label, path in files],
            arguments.peers,
            threads=threads,
            seconds=arguments.seconds or MODEL_SECONDS,
            ours=_Compiler(Path(folder), {**options.records(arguments), "precision": arguments.precision}),
            input_shapes=shapes,
            # Who names a peer wants its numbers.
            require_peers=arguments.peers is not None,
            tolerance=ROUNDED_TOLERANCE if rounded else None,
            any_size=arguments.any_size,
            progress=note,
            # After each model: many take an hour, of which nothing may be lost.
            measured=saving,
            interrupted=lambda: bool(interrupts),
        )
    return result, interrupts


class _Saving:
    """Writes results to a file. Where that fails, the rest is measured all the same, as it is printed too."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.failed = False

    def __call__(self, result: "BenchResult") -> None:
        from relay_layout.bench import history

        try:
            history.save(self._path, result)
            self.failed = False
        except OSError as error:
            self.failed = True
            note(f"relay-layout: error: --save: {one_line(system_message(error))}")


def _status(interrupts: Sequence[int], failed: bool, saving: _Saving | None = None) -> int:
    if interrupts:
        return INTERRUPTED
    return NOT_WRITTEN if saving is not None and saving.failed else int(failed)


def _run_layers(arguments: Namespace, shapes: Mapping[str, Sequence[int]] | None) -> Outcome:
    """The exit status is 1 where a layer of relay-layout failed or computed something else."""
    if arguments.peers is not None:
        raise InputError("--layers compares with oneDNN alone; leave out --peers")
    if arguments.save is not None or arguments.against is not None:
        raise InputError("--save and --against are for whole models; leave out --layers")
    if arguments.neighbours is not None:
        raise InputError("--neighbours is for whole models; leave out --layers")
    if arguments.any_size:
        raise InputError("--any-size is for whole models; leave out --layers")
    if arguments.precision != "fp32":
        raise InputError("--layers compares in float32; leave out --precision")
    from relay_layout.bench.layers.results import failed
    from relay_layout.bench.layers.run import run_layers
    from relay_layout.bench.layers.table import format_layers
    from relay_layout.targets import require_cpu, resolve_target

    with noted_interrupts() as interrupts:
        result = run_layers(
            arguments.models,
            require_cpu(resolve_target(threads=arguments.threads, **options.records(arguments))),
            seconds=arguments.seconds or LAYER_SECONDS,
            input_shapes=shapes,
            progress=note,
            interrupted=lambda: bool(interrupts),
        )
    return Outcome(result, format_layers(result), _status(interrupts, failed(result)))


def model_files(
    models: Sequence[str], shapes: Mapping[str, Sequence[int]], folder: Path
) -> list[tuple[str, Path]]:
    """Label and ONNX file of each model; built-in networks are written to ``folder``, for these input shapes.

    InputError for a model that is neither, ModelError for shapes that a built-in network does not take.
    """
    from relay_layout.frontend.loader import builtin_network
    from relay_layout.models import export_onnx, names

    for model in models:
        if model not in names() and not model.endswith(".onnx"):
            raise InputError(
                f"bench takes .onnx files and built-in networks ({', '.join(names())}), not '{model}'"
            )
    files = []
    for model in models:
        if model not in names():
            files.append((model, Path(model)))
            continue
        path = folder / f"{model}.onnx"
        progress(f"writing {model} as ONNX")
        export_onnx(builtin_network(model, shapes), path)
        files.append((model, path))
    return files


def subject_failed(result: "BenchResult") -> bool:
    """Whether relay-layout has no time for some model, or outputs that differ."""
    from relay_layout.bench.peers import OURS

    return any(
        OURS not in model["peers"] or model["peers"][OURS]["agrees"] is False for model in result["models"]
    )


class _Compiler:
    """Compiles ONNX files to artifacts in a folder."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._folder = folder
        self._settings = settings
        self._count = 0

    def __call__(self, model: Path, threads: int) -> Path:
        import relay_layout

        self._count += 1
        artifact = self._folder / f"{self._count}.artifact"
        compiled = relay_layout.compile(str(model), threads=threads, progress=progress, **self._settings)
        compiled.save(artifact)
        return artifact


def _peers(text: str) -> list[str]:
    if text == "none":
        return []
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ArgumentTypeError(f"expected names with commas between them, got '{text}'")
    return names
