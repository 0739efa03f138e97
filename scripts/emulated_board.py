"""An emulated ARM board on root's Debian: set it up, serve it, and run on it what takes minutes.

``python -m scripts.emulated_board setup|serve|networks|native``; docs/boards.md says more.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from relay_layout.cli.output import note
from relay_layout.columns import columns
from tests.board.root import BoardRoot, BoardUnavailable, board_root


def setup(root: BoardRoot, options: argparse.Namespace) -> int:
    """The folder of the board."""
    print(root.folder)
    return 0


def serve(root: BoardRoot, options: argparse.Namespace) -> int:
    """A tracker with two boards until Ctrl-C."""
    from tests.board.servers import KEY, Boards

    with tempfile.TemporaryDirectory(prefix="boards-") as logs, Boards(root, 2, Path(logs)) as boards:
        print(
            f"two boards at --rpc-tracker 127.0.0.1:{boards.port} --rpc-key {KEY}; Ctrl-C ends them",
            flush=True,
        )
        try:
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            return 0


def networks(root: BoardRoot, options: argparse.Namespace) -> int:
    """Every built-in network in each precision and layout, for small images; 1 where float32 is off.

    Beside int8 stands how far ONNX Runtime is from ONNX's definition.
    """
    from relay_layout.models import names
    from tests.board.networks import LAYOUTS, TOLERANCE, definition_error, network_error
    from tests.board.servers import Boards

    found = _kept(options.results)
    precisions, wanted = options.precision, options.network or names()
    kinds = [(precision, layout) for precision in precisions for layout in LAYOUTS]
    kinds += [("int8", DEFINITION)] if "int8" in precisions else []
    cells = [(name, *column) for name in wanted for column in kinds]
    with tempfile.TemporaryDirectory(prefix="boards-") as logs, Boards(root, 1, Path(logs)) as boards:
        for cell in cells:
            if cell in found:
                continue
            note(" ".join(cell))
            name, precision, layout = cell
            if layout == DEFINITION:
                found[cell] = definition_error(name, Path(logs))
            else:
                found[cell] = network_error(name, layout, boards.remote, Path(logs), precision)
            if options.results is not None:
                with options.results.open("a", encoding="utf-8") as file:
                    print(json.dumps([*cell, found[cell]]), file=file)
    rows = [["network", *(" ".join(column) for column in kinds)]]
    for name in wanted:
        errors = [found[name, precision, layout] for precision, layout in kinds]
        rows.append([name, *(f"{error:.1e}" for error in errors)])
    print(columns(rows))
    return int(any(found[cell] >= TOLERANCE for cell in cells if cell[1] == "float32"))


def native(root: BoardRoot, options: argparse.Namespace) -> int:
    """The package, installed on the board, compiles a network there and runs it; 1 where it is off."""
    from tests.board.native import NETWORK, native_error
    from tests.board.networks import TOLERANCE

    with tempfile.TemporaryDirectory(prefix="board-native-") as folder:
        error = native_error(root, Path(folder))
    print(f"{NETWORK}, compiled and run on the board with --target native: largest error {error:.1e}")
    return int(error >= TOLERANCE)


def _kept(results: Path | None) -> dict[tuple[str, str, str], float]:
    """What a file of results holds of earlier runs."""
    if results is None or not results.exists():
        return {}
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    return {(name, precision, layout): error for name, precision, layout, error in lines}


VERBS = {verb.__name__: verb for verb in (setup, serve, networks, native)}
PRECISIONS = ("float32", "float16", "int8")
DEFINITION = "by definition"
"""In place of a layout: the outputs of ONNX's definition."""


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 1 for a failed check, 2 where there can be no board."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS, default=["float32"], help="of networks")
    parser.add_argument("--network", nargs="+", metavar="NAME", help="all that are built in by default")
    parser.add_argument("--results", type=Path, help="networks: a file of what is done, from which to go on")
    options = parser.parse_args(arguments)
    try:
        return VERBS[options.verb](board_root(note), options)
    except BoardUnavailable as error:
        note(f"no emulated ARM board: {error}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
