"""The options that verbs share: declared once, as data, and read and checked before any work begins."""

import errno
import os
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from relay_layout.cli import values
from relay_layout.errors import InputError
from topi_ext.messages import system_reason

if TYPE_CHECKING:
    from topi_ext.tune.measuring.tracker import RemoteDevice

MODEL_HELP = (
    "an .onnx, .pt2 (torch.export) or .tflite file, Relay text (.relay, .txt) or JSON (.json), "
    "or a built-in network such as resnet50"
)


class Parser(ArgumentParser):
    """A verb's parser, whose errors are exceptions: they become one line, without the usage."""

    def __init__(self, verb: str, description: str) -> None:
        super().__init__(prog=f"relay-layout {verb}", description=description, allow_abbrev=False)
        self._verb = verb
        self.add_argument("--json", action="store_true", help="print one JSON object as the last line")
        self.add_argument("--traceback", action="store_true", help="with an error, print where it arose")

    def read(self, words: Sequence[str]) -> Namespace:
        """The arguments that words give; InputError for ones that it does not take."""
        for word in words:
            # Of "--name=--" argparse makes a list of nothing, in some versions of Python.
            if word.startswith("--") and word.endswith("=--"):
                self.error(f"argument {word.removesuffix('=--')}: expected a value, got '--'")
        return self.parse_args(words)

    def error(self, message: str) -> NoReturn:
        """Raises InputError."""
        raise InputError(f"{self._verb}: {message}; see {self.prog} --help")


@dataclass(frozen=True)
class Option:
    """An argument of several verbs: its name, and what argparse is told of it."""

    name: str
    settings: Mapping[str, Any]

    def is_given(self, arguments: Namespace) -> bool:
        """Whether a command line says something else than leaving it out does."""
        value = getattr(arguments, self.settings.get("dest", self.name.removeprefix("--").replace("-", "_")))
        return bool(
            value != self.settings.get("default", self.settings.get("action") == "store_false" or None)
        )


def add(parser: ArgumentParser, *options: Option) -> None:
    """Declares arguments in the order in which help names them."""
    for each in options:
        parser.add_argument(each.name, **each.settings)


def option(name: str, **settings: Any) -> Option:
    """An option, in the words of ``ArgumentParser.add_argument``."""
    return Option(name, settings)


MODEL = option("model", metavar="MODEL", help=MODEL_HELP)
MODELS = option("models", nargs="+", metavar="MODEL", help=MODEL_HELP)

_TARGET_HELP = "native (this machine, the default), a target's name, or its JSON"
TARGET = option("--target", default="native", metavar="TARGET", help=_TARGET_HELP)
TARGETS = option(
    "--target",
    default="native",
    metavar="TARGET",
    help=f"{_TARGET_HELP}; or several with commas, the least first, of which the last that fits is run",
)

THREADS = option(
    "--threads",
    type=values.threads,
    metavar="N",
    help="how many threads to use; otherwise one per core",
)

PRECISION = option(
    "--precision",
    choices=("fp16", "bf16", "tf32", "fp32"),
    default="fp32",
    help="what floats are multiplied in: fp32 (the default), bf16 on processors with AVX512_BF16, AMX or "
    "ARM's bf16, and on the tensor cores of CUDA tf32 or fp16",
)

INPUT_SHAPE = option(
    "--input-shape",
    type=values.input_shape,
    action="append",
    default=[],
    metavar="NAME:1,3,224,224",
    help="the shape of an input of a built-in network, or of one whose open extents are to be fixed; once "
    "for each input",
)

RECORDS = (
    option(
        "--tuning-records",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="logs of relay-layout tune to take kernels and costs from, beside the package's own",
    ),
    option(
        "--no-shipped-records",
        dest="shipped_records",
        action="store_false",
        help="leave out the tuning records of the package",
    ),
    option(
        "--no-winograd",
        dest="winograd",
        action="store_false",
        help="no Winograd convolutions: slower, and rounding as the direct convolution does",
    ),
)
"""Where kernels and costs come from."""

CONVERSION = (
    option(
        "--desired-layout",
        metavar="LAYOUT",
        help="auto (the default: least cost for the target), none, or a layout such as NHWC or NCHW16c",
    ),
    option(
        "--desired-layout-ops",
        nargs="+",
        action="extend",
        metavar="OP",
        help="the operators that --desired-layout applies to, such as nn.conv2d; otherwise all convolutions",
    ),
    option(
        "--desired-layouts",
        type=values.desired_layouts,
        metavar="JSON",
        help="""layouts per operator, data first, such as '{"nn.conv2d": ["NHWC", "default"]}'""",
    ),
    option(
        "--skip-layers",
        type=values.skip_layers,
        default=(),
        metavar="N,N",
        help="convolutions to leave alone, counted from 0 in the model's order, such as 0,3",
    ),
    *(
        option(
            f"--{border}-layout",
            type=values.border_layout,
            action="append",
            default=[],
            metavar="NAME:NHWC",
            help=f"the layout of an {border}, where it is not the model's own; once for each {border}",
        )
        for border in ("input", "output")
    ),
    option(
        "--params", metavar="FILE", help="weights for a Relay file, as Relay's save_param_dict wrote them"
    ),
    *RECORDS,
    INPUT_SHAPE,
    option(
        "--threads",
        type=values.threads,
        metavar="N",
        help="how many threads kernels are made for; otherwise one per core, of this machine or of the board "
        "that the target stands for",
    ),
    PRECISION,
)
"""What to convert to, and for which kernels; :class:`ModelOptions` reads them."""

_RPC_WAIT = option(
    "--rpc-wait",
    type=values.seconds,
    metavar="S",
    help="how many seconds to wait for a machine when none is left (300)",
)


def remote(purpose: str, *, with_key: bool = True) -> tuple[Option, ...]:
    """Machines that an RPC tracker lends (:func:`remote_device`); a verb without keys requires a tracker."""
    tracker = option(
        "--rpc-tracker", type=values.address, required=not with_key, metavar="HOST:PORT", help=purpose
    )
    key = option("--rpc-key", metavar="KEY", help="the key that those machines have at the tracker")
    return (tracker, *([key] if with_key else []), _RPC_WAIT)


def remote_device(arguments: Namespace) -> "RemoteDevice | None":
    """The machines that were asked for. Raises InputError for half an address."""
    if (arguments.rpc_tracker is None) != (arguments.rpc_key is None):
        raise InputError("--rpc-tracker and --rpc-key belong together; give both or none")
    if arguments.rpc_tracker is None:
        if arguments.rpc_wait is not None:
            raise InputError("--rpc-wait needs --rpc-tracker and --rpc-key")
        return None
    from topi_ext.tune.measuring.tracker import WAIT, RemoteDevice

    host, port = arguments.rpc_tracker
    return RemoteDevice(host, port, arguments.rpc_key, arguments.rpc_wait or WAIT)


@dataclass(frozen=True)
class ModelOptions:
    """What is asked for a model, as keyword arguments.

    ``layouts`` are those of ``relay_layout.convert`` without those of ``resolve_target``, which are the
    others; of these ``records`` are those of :data:`RECORDS`. ``target`` is None where the verb has no such
    option.
    """

    target: str | None
    layouts: Mapping[str, Any]
    records: Mapping[str, Any]
    threads: int | None
    precision: str

    @staticmethod
    def read(arguments: Namespace) -> "ModelOptions":
        """Raises InputError for options that contradict one another."""
        layout, operators = arguments.desired_layout, arguments.desired_layout_ops
        if arguments.desired_layouts is not None:
            for name, given in (("--desired-layout", layout), ("--desired-layout-ops", operators)):
                if given is not None:
                    raise InputError(f"--desired-layouts cannot be combined with {name}; give one of them")
        if operators is not None and layout in (None, "auto", "none"):
            raise InputError(
                f"--desired-layout-ops needs a layout for them, but --desired-layout is {layout or 'auto'}; "
                "name one, such as --desired-layout NHWC"
            )
        layouts = {
            "desired_layout": "auto" if layout is None else layout,
            "desired_layout_ops": operators,
            "desired_layouts": arguments.desired_layouts,
            "skip_layers": arguments.skip_layers,
            "input_shapes": input_shapes(arguments),
            "params": arguments.params,
            "input_layouts": _by_name(arguments.input_layout, "--input-layout"),
            "output_layouts": _by_name(arguments.output_layout, "--output-layout"),
        }
        return ModelOptions(
            getattr(arguments, "target", None),
            layouts,
            records(arguments),
            arguments.threads,
            arguments.precision,
        )

    def keywords(self) -> dict[str, Any]:
        """All keyword arguments of ``relay_layout.convert``."""
        target = {} if self.target is None else {"target": self.target}
        return {
            **target,
            **self.layouts,
            **self.records,
            "threads": self.threads,
            "precision": self.precision,
        }


def records(arguments: Namespace) -> dict[str, Any]:
    """The keyword arguments of :data:`RECORDS` for ``compile`` and ``resolve_target``."""
    return {
        "tuning_records": arguments.tuning_records,
        "shipped_records": arguments.shipped_records,
        "winograd": arguments.winograd,
    }


def sources(arguments: Namespace) -> list[str]:
    """The files that :data:`MODEL` or :data:`MODELS` and :data:`CONVERSION` or :data:`RECORDS` name."""
    models = [arguments.model] if hasattr(arguments, "model") else arguments.models
    params = getattr(arguments, "params", None)
    return [*models, *([] if params is None else [params]), *arguments.tuning_records]


def input_shapes(arguments: Namespace) -> dict[str, tuple[int, ...]] | None:
    """The shapes by input name, None if there are none. Raises InputError for a name given twice."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, shape in arguments.input_shape:
        if name in shapes:
            raise InputError(f"--input-shape: the shape of input '{name}' is given twice")
        shapes[name] = shape
    return shapes or None


def check_writable(option: str, path: str, sources: Sequence[str] = ()) -> None:
    """Raises InputError if ``path`` cannot become a file, or is one of the files being read.

    Asked before the work, which may take minutes; whoever writes the file still checks.
    """
    if not path:
        raise InputError(f"{option}: the path is empty")
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise InputError(f"{option}: {path} is a directory, not a file")
    _check_name(option, path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{option}: {path} is not a regular file")
    if not os.path.isdir(folder):
        raise InputError(f"{option}: the folder {folder} does not exist")
    if not _takes_files(folder):
        raise InputError(f"{option}: the folder {folder} is not writable")
    for source in sources:
        if os.path.exists(source) and os.path.exists(path) and os.path.samefile(source, path):
            raise InputError(f"{option}: {path} would overwrite what is being read")


def _check_name(option: str, path: str) -> None:
    """Raises InputError where no file can have that name, such as one that is too long."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise InputError(f"{option}: {path}: {system_reason(error)}") from None


def check_folder(option: str, path: str) -> None:
    """Raises InputError if ``path`` neither is a folder nor can become one."""
    folder = Path(path)
    if not folder.exists():
        check_writable(option, path)
    elif not folder.is_dir():
        raise InputError(f"{option}: {folder} is a file, not a folder")


def _takes_files(folder: str) -> bool:
    """Whether files can be made there; for root, every mode and every file system says so."""
    if not os.access(folder, os.W_OK):
        return False
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError as error:
        # A full disk takes what is put in the place of something longer.
        return error.errno in (errno.ENOSPC, errno.EDQUOT)


def check_apart(option: str, path: str, other: str, second: str) -> None:
    """Raises InputError if both options name the same file to write."""
    if os.path.realpath(path) == os.path.realpath(second):
        raise InputError(f"{other}: {second} is what {option} writes; give each a file of its own")


def _by_name(pairs: Sequence[tuple[str, str]], option: str) -> dict[str, str]:
    layouts: dict[str, str] = {}
    for name, layout in pairs:
        if name in layouts:
            raise InputError(f"{option}: the layout of '{name}' is given twice")
        layouts[name] = layout
    return layouts
