"""The command ``relay-layout VERB``, which is also ``python -m relay_layout VERB``."""

import sys


def main() -> int:
    """As :func:`relay_layout.cli.main.main`; an interrupt while that is imported is one line, too."""
    try:
        from relay_layout.cli.main import main as run
    except KeyboardInterrupt:
        print("relay-layout: interrupted", file=sys.stderr)
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
