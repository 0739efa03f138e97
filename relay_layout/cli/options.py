"""Options that verbs share: declared, read and checked, before any work begins."""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from relay_layout.errors import InputError

if TYPE_CHECKING:
    from topi_ext.tune.tracker import RemoteDevice

MODEL_HELP = (
    "an .onnx, .pt2 (torch.export) or .tflite file, Relay text (.relay, .txt) or JSON (.json), "
    "or a built-in network such as resnet50"
)
_MOST_THREADS = 65536


class Parser(argparse.ArgumentParser):
    """A verb's parser, whose errors are exceptions: they become one line, without the usage."""

    def __init__(self, verb: str, description: str) -> None:
        super().__init__(prog=f"relay-layout {verb}", description=description, allow_abbrev=False)
        self._verb = verb
        self.add_argument("--json", action="store_true", help="print one JSON object as the last line")
        self.add_argument("--traceback", action="store_true", help="with an error, print where it arose")

    def error(self, message: str) -> NoReturn:
        """Raises InputError."""
        raise InputError(f"{self._verb}: {message}; see {self.prog} --help")


def add_layout_options(
    parser: argparse.ArgumentParser, *, several_targets: bool = False, with_target: bool = True
) -> None:
    """The options that say what to convert to, and for which target, or list of targets."""
    several = "; or several with commas, the least first, of which the last that fits is run"
    if with_target:
        parser.add_argument(
            "--target",
            default="native",
            metavar="TARGET",
            help="native (this machine, the default), a target's name, or its JSON"
            + (several if several_targets else ""),
        )
    parser.add_argument(
        "--desired-layout",
        metavar="LAYOUT",
        help="auto (the default: least cost for the target), none, or a layout such as NHWC or NCHW16c",
    )
    parser.add_argument(
        "--desired-layout-ops",
        nargs="+",
        action="extend",
        metavar="OP",
        help="the operators that --desired-layout applies to, such as nn.conv2d; otherwise all convolutions",
    )
    parser.add_argument(
        "--desired-layouts",
        type=_desired_layouts,
        metavar="JSON",
        help="""layouts per operator, data first, such as '{"nn.conv2d": ["NHWC", "default"]}'""",
    )
    parser.add_argument(
        "--skip-layers",
        type=_skip_layers,
        default=(),
        metavar="N,N",
        help="convolutions to leave alone, counted from 0 in the model's order, such as 0,3",
    )
    for border in ("input", "output"):
        parser.add_argument(
            f"--{border}-layout",
            type=_border_layout,
            action="append",
            default=[],
            metavar="NAME:NHWC",
            help=f"the layout of an {border}, where it is not the model's own; once for each {border}",
        )
    parser.add_argument(
        "--params", metavar="FILE", help="weights for a Relay file, as Relay's save_param_dict wrote them"
    )
    add_record_options(parser)
    add_input_shape_option(parser)


def add_record_options(parser: argparse.ArgumentParser) -> None:
    """Where kernels and costs come from."""
    parser.add_argument(
        "--tuning-records",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="logs of relay-layout tune to take kernels and costs from, beside the package's own",
    )
    parser.add_argument(
        "--no-shipped-records", action="store_true", help="leave out the tuning records of the package"
    )
    parser.add_argument(
        "--no-winograd",
        action="store_true",
        help="no Winograd convolutions: slower, and rounding as the direct convolution does",
    )


def add_precision_option(parser: argparse.ArgumentParser) -> None:
    """What GPUs compute in."""
    parser.add_argument(
        "--precision",
        choices=("fp16", "tf32", "fp32"),
        default="fp32",
        help="what CUDA targets compute in: fp32 (the default), or on tensor cores tf32 or fp16",
    )


def add_input_shape_option(parser: argparse.ArgumentParser) -> None:
    """The shape of an input whose model leaves dimensions open."""
    parser.add_argument(
        "--input-shape",
        type=_input_shape,
        action="append",
        default=[],
        metavar="NAME:1,3,224,224",
        help="the shape of an input; once for each input",
    )


def add_threads_option(parser: argparse.ArgumentParser) -> None:
    """How many threads to use."""
    parser.add_argument(
        "--threads", type=_threads, metavar="N", help="how many threads to use; otherwise one per core"
    )


def add_remote_options(parser: argparse.ArgumentParser, purpose: str, *, with_key: bool = True) -> None:
    """Machines that an RPC tracker lends (:func:`remote_device`); a verb without keys requires a tracker."""
    parser.add_argument(
        "--rpc-tracker", type=_address, required=not with_key, metavar="HOST:PORT", help=purpose
    )
    if with_key:
        parser.add_argument(
            "--rpc-key", metavar="KEY", help="the key that those machines have at the tracker"
        )
    parser.add_argument(
        "--rpc-wait",
        type=seconds,
        metavar="S",
        help="how many seconds to wait for a machine when none is left (300)",
    )


def remote_device(arguments: argparse.Namespace) -> "RemoteDevice | None":
    """The machines that were asked for. Raises InputError for half an address."""
    if (arguments.rpc_tracker is None) != (arguments.rpc_key is None):
        raise InputError("--rpc-tracker and --rpc-key belong together; give both or none")
    if arguments.rpc_tracker is None:
        if arguments.rpc_wait is not None:
            raise InputError("--rpc-wait needs --rpc-tracker and --rpc-key")
        return None
    from topi_ext.tune.tracker import WAIT, RemoteDevice

    host, port = arguments.rpc_tracker
    return RemoteDevice(host, port, arguments.rpc_key, arguments.rpc_wait or WAIT)


def layout_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments for ``relay_layout.compile`` and ``convert``.

    Raises InputError for options that contradict one another.
    """
    layout, operators = arguments.desired_layout, arguments.desired_layout_ops
    if arguments.desired_layouts is not None:
        for option, given in (("--desired-layout", layout), ("--desired-layout-ops", operators)):
            if given is not None:
                raise InputError(f"--desired-layouts cannot be combined with {option}; give one of them")
    if operators is not None and layout in (None, "auto", "none"):
        raise InputError(
            f"--desired-layout-ops needs a layout for them, but --desired-layout is {layout or 'auto'}; "
            "name one, such as --desired-layout NHWC"
        )
    return {
        **({"target": arguments.target} if "target" in arguments else {}),
        "desired_layout": "auto" if layout is None else layout,
        "desired_layout_ops": operators,
        "desired_layouts": arguments.desired_layouts,
        "skip_layers": arguments.skip_layers,
        "input_shapes": input_shapes(arguments),
        "params": arguments.params,
        "input_layouts": _by_name(arguments.input_layout, "--input-layout"),
        "output_layouts": _by_name(arguments.output_layout, "--output-layout"),
        **record_options(arguments),
    }


def record_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of :func:`add_record_options` for ``compile`` and ``resolve_target``."""
    return {
        "tuning_records": arguments.tuning_records,
        "shipped_records": not arguments.no_shipped_records,
        "winograd": not arguments.no_winograd,
    }


def input_shapes(arguments: argparse.Namespace) -> dict[str, tuple[int, ...]] | None:
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
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{option}: {path} is not a regular file")
    if not os.path.isdir(folder):
        raise InputError(f"{option}: the folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{option}: the folder {folder} is not writable")
    for source in sources:
        if os.path.exists(source) and os.path.exists(path) and os.path.samefile(source, path):
            raise InputError(f"{option}: {path} would overwrite what is being read")


def positive(text: str, most: int | None = None) -> int:
    """A whole number of at least 1, for argparse."""
    bound = "at least 1" if most is None else f"1 to {most}"
    number = _whole(text)
    if number is None or number < 1 or (most is not None and number > most):
        raise argparse.ArgumentTypeError(f"expected a whole number of {bound}, got '{text}'")
    return number


def seconds(text: str) -> float:
    """A number of seconds above 0, for argparse."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 3600:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, at most 3600, got '{text}'")
    return number


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"expected HOST:PORT, got '{text}'")
    return host.strip("[]"), int(port)


def _threads(text: str) -> int:
    return positive(text, _MOST_THREADS)


def _whole(text: str) -> int | None:
    stripped = text.strip()
    # int() would also take signs, underscores and other scripts' digits; and past 18 digits it is slow.
    return int(stripped) if stripped.isascii() and stripped.isdigit() and len(stripped) <= 18 else None


def _skip_layers(text: str) -> tuple[int, ...]:
    numbers = [_whole(part) for part in text.split(",")]
    if any(number is None for number in numbers):
        raise argparse.ArgumentTypeError(f"expected numbers from 0 on, such as 0,3, got '{text}'")
    return tuple(number for number in numbers if number is not None)


def _input_shape(text: str) -> tuple[str, tuple[int, ...]]:
    # From the right, because TensorFlow's names hold a colon: "input:0".
    name, _, extents = text.rpartition(":")
    extents = extents.strip()
    if extents.startswith("[") and extents.endswith("]"):
        extents = extents[1:-1]
    shape = [_whole(part) for part in extents.split(",")]
    if not name or any(extent is None or extent < 1 for extent in shape):
        raise argparse.ArgumentTypeError(f"expected NAME:1,3,224,224 with numbers from 1 on, got '{text}'")
    return name, tuple(extent for extent in shape if extent is not None)


def _border_layout(text: str) -> tuple[str, str]:
    name, _, layout = text.rpartition(":")
    if not name or not layout.isalpha():
        raise argparse.ArgumentTypeError(f"expected NAME:NHWC, got '{text}'")
    return name, layout


def _by_name(pairs: Sequence[tuple[str, str]], option: str) -> dict[str, str]:
    layouts: dict[str, str] = {}
    for name, layout in pairs:
        if name in layouts:
            raise InputError(f"{option}: the layout of '{name}' is given twice")
        layouts[name] = layout
    return layouts


def _desired_layouts(text: str) -> Mapping[str, Sequence[str]]:
    expected = """expected JSON such as '{"nn.conv2d": ["NHWC", "default"]}'"""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"{expected}: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError):
        raise argparse.ArgumentTypeError(f"{expected}: not readable as JSON") from None
    if not isinstance(found, dict) or not found:
        raise argparse.ArgumentTypeError(f"{expected}: it names no operator")
    for operator, layouts in found.items():
        if not isinstance(layouts, list) or not layouts or not all(isinstance(item, str) for item in layouts):
            raise argparse.ArgumentTypeError(f"{expected}: '{operator}' has no list of layouts")
    return found


__all__ = [
    "MODEL_HELP",
    "Parser",
    "add_input_shape_option",
    "add_layout_options",
    "add_precision_option",
    "add_record_options",
    "add_remote_options",
    "add_threads_option",
    "check_writable",
    "input_shapes",
    "layout_options",
    "positive",
    "record_options",
    "remote_device",
    "seconds",
]
