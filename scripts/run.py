"""The same as ``relay-layout run``."""

import sys

from relay_layout.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["run", *sys.argv[1:]]))
