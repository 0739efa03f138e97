"""An emulated ARM board on root's Debian: set it up, serve it, and run on it what takes minutes.

``python -m scripts.emulated_board setup|serve|networks``; docs/boards.md says more.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from relay_layout.cli.output import note, table
from tests.board.root import BoardRoot, BoardUnavailable, board_root


def setup(root: BoardRoot) -> int:
    """The folder of the board."""
    print(root.folder)
    return 0


def serve(root: BoardRoot) -> int:
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


def networks(root: BoardRoot) -> int:
    """Every built-in network in each layout, for small images; 1 where an output is off."""
    from tests.board.networks import LAYOUTS, TOLERANCE, names, network_error
    from tests.board.servers import Boards

    rows = [["network", *LAYOUTS]]
    worst = 0.0
    with tempfile.TemporaryDirectory(prefix="boards-") as logs, Boards(root, 1, Path(logs)) as boards:
        for name in names():
            note(name)
            errors = [network_error(name, layout, boards.remote, Path(logs)) for layout in LAYOUTS]
            rows.append([name, *(f"{error:.1e}" for error in errors)])
            worst = max(worst, *errors)
    print(table(rows))
    return int(worst >= TOLERANCE)


VERBS = {verb.__name__: verb for verb in (setup, serve, networks)}


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 1 for a failed check, 2 where there can be no board."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=VERBS)
    options = parser.parse_args(arguments)
    try:
        return VERBS[options.verb](board_root(note))
    except BoardUnavailable as error:
        note(f"no emulated ARM board: {error}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
