"""A picture of a report: ``python -m scripts.screenshot REPORT.html -o PICTURE.png [--node NAME]``.

Needs Chromium (Debian: ``apt install chromium``).
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def find_chromium() -> str | None:
    """The path of an installed Chromium."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def screenshot(page: Path, picture: Path, node: str | None, size: str, scheme: str) -> None:
    """Write a PNG of ``page``, with the operator ``node`` selected; CalledProcessError if that fails."""
    chromium = find_chromium()
    if chromium is None:
        raise FileNotFoundError("no Chromium found; install one, such as Debian's package chromium")
    if not page.is_file():
        raise FileNotFoundError(f"{page}: no such file; relay-layout compile --report writes one")
    address = page.resolve().as_uri() + (f"#node={quote(node)}" if node else "")
    with tempfile.TemporaryDirectory(prefix="relay-layout-") as profile:
        words = [
            chromium,
            *FLAGS,
            f"--user-data-dir={profile}",
            f"--window-size={size}",
            "--virtual-time-budget=4000",
            *(["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []),
            f"--screenshot={picture.resolve()}",
            address,
        ]
        subprocess.run(words, check=True, capture_output=True, timeout=120)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("page", type=Path, metavar="REPORT.html")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PICTURE.png")
    parser.add_argument("--node", metavar="NAME", help="the operator to select")
    parser.add_argument("--size", default="1680,1150", metavar="WIDTH,HEIGHT")
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    arguments = parser.parse_args()
    try:
        screenshot(arguments.page, arguments.output, arguments.node, arguments.size, arguments.scheme)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"screenshot: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
