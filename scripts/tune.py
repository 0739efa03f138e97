"""The same as ``relay-layout tune``."""

import sys

from relay_layout.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["tune", *sys.argv[1:]]))
