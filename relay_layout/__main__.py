"""``python -m relay_layout VERB``: the same as the ``relay-layout`` command."""

import sys

from relay_layout.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
