"""The same as ``relay-layout compile``."""

import sys

from relay_layout.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["compile", *sys.argv[1:]]))
