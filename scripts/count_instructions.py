"""Instructions that networks execute on the emulated ARM board, ours beside ONNX Runtime's wheel for it.

``python -m scripts.count_instructions`` counts ResNet-18 for 224 pixels, in about five minutes. It needs what
docs/boards.md says of a board without a board, and a C compiler.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from relay_layout.cli.output import note
from relay_layout.columns import columns
from relay_layout.models import build, names
from tests.board.counting import PEER, InstructionCounter, counts, multiply_accumulates
from tests.board.networks import LAYOUTS
from tests.board.root import BoardUnavailable, board_root


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 1 where we execute more than ONNX Runtime does, 2 where there can be no board."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", choices=names(), default="resnet18", metavar="NAME")
    parser.add_argument("--image-size", type=int, default=224, metavar="PIXELS")
    options = parser.parse_args(arguments)
    network = build(options.network, image_size=options.image_size)
    variants = [(layout, winograd) for winograd in (True, False) for layout in LAYOUTS]
    try:
        with tempfile.TemporaryDirectory(prefix="board-counter-") as folder:
            counter = InstructionCounter(board_root(note), Path(folder), note)
            found = counts(counter, network, variants, Path(folder))
    except BoardUnavailable as error:
        note(f"no emulated ARM board: {error}")
        return 2
    products = multiply_accumulates(network)
    rows = [["runtime", "layout", "Winograd", "instructions", "per multiply-accumulate"]]
    for (runtime, layout, winograd), executed in found.items():
        words = [runtime, layout or "-", "yes" if winograd else "no", str(executed)]
        rows.append([*words, f"{executed / products:.3f}"])
    print(columns(rows))
    theirs = found[PEER, "", False]
    return int(any(executed > theirs for (_, _, winograd), executed in found.items() if winograd))


if __name__ == "__main__":
    sys.exit(main())
