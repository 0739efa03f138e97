"""The release of this package, and which of TVM it runs on; asked when it is imported, before TVM is.

The ranges are those of ``dependencies`` in pyproject.toml, for installations that pip did not make.
"""

from importlib.metadata import PackageNotFoundError, version

from relay_layout.errors import RelayLayoutError

__version__ = "0.1.0"

SUPPORTED = {
    "apache-tvm": ((0, 27), (0, 28)),
    # From 0.1.15 on, every JSON serialisation of an object ends the process.
    "apache-tvm-ffi": ((0, 1, 14), (0, 1, 15)),
}
"""The first release of each package that works, and the first after it that does not."""


class UnsupportedVersionError(RelayLayoutError, ImportError):
    """An installed package is of a release that this one does not run on."""


def check_versions() -> None:
    """UnsupportedVersionError, one line that says what to install, for a release that is not supported.

    A package that is not installed, or that a build system names in its own way, is left to the import.
    """
    for package, (first, beyond) in SUPPORTED.items():
        try:
            found = version(package)
        except PackageNotFoundError:
            continue
        release = release_of(found)
        if release is not None and not first <= release < beyond:
            wanted = f">={_text(first)},<{_text(beyond)}"
            raise UnsupportedVersionError(
                f"{package} {found} is not supported, only {wanted}: pip install '{package}{wanted}'"
            )


def release_of(text: str) -> tuple[int, ...] | None:
    """The numbers that a version begins with; None where it begins with none."""
    numbers: list[int] = []
    for part in text.split("."):
        if not part.isascii() or not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers) or None


def _text(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))
