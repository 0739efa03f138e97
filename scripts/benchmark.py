"""The same as ``relay-layout bench``."""

import sys

from relay_layout.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
