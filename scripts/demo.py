"""Compile and run a network and compare it with ONNX Runtime; see ``--help``."""

import sys

from relay_layout.cli.demo import main

if __name__ == "__main__":
    sys.exit(main())
