"""The release of this package, and which of TVM it runs on, asked before TVM is imported.

The ranges are those of ``dependencies`` in pyproject.toml, for installations that pip did not make.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from relay_layout.errors import RelayLayoutError

__version__ = "0.1.0"

SUPPORTED = {
    "apache-tvm": ((0, 27), (0, 28)),
    # From 0.1.15 on, every JSON serialisation of an object ends the process.
    "apache-tvm-ffi": ((0, 1, 14), (0, 1, 15)),
}
"""The first release of each package that works, and the first after it that does not."""

_PACKAGES = {
    "ml_dtypes": "ml_dtypes",
    "numpy": "numpy",
    "scipy": "scipy",
    "tvm": "apache-tvm",
    "tvm_ffi": "apache-tvm-ffi",
}
"""What pip calls the packages that every installation has, by the name that is imported."""


class UnsupportedVersionError(RelayLayoutError, ImportError):
    """An installed package is of a release that this one does not run on."""


class MissingPackageError(RelayLayoutError, ImportError):
    """A package without which nothing works is not installed."""


@contextmanager
def needed_packages() -> Iterator[None]:
    """Code that imports TVM and others. UnsupportedVersionError, MissingPackageError."""
    check_versions()
    try:
        yield
    except ModuleNotFoundError as error:
        package = _PACKAGES.get((error.name or "").partition(".")[0])
        if package is None:
            raise
        wanted = f"{package}{_range(*SUPPORTED[package])}" if package in SUPPORTED else package
        raise MissingPackageError(
            f"the Python that runs this, {sys.executable}, has no package {package}: use the one that "
            f"relay-layout was installed with, or {sys.executable} -m pip install '{wanted}'"
        ) from None


@cache
def check_versions() -> None:
    """UnsupportedVersionError, one line that says what to install, for a release that is not supported.

    A package that is not installed, or that a build system names in its own way, is left to the import.
    """
    # Loaded here since it takes longer than the rest of the package until it is used.
    from importlib.metadata import PackageNotFoundError, version

    for package, (first, beyond) in SUPPORTED.items():
        try:
            found = version(package)
        except PackageNotFoundError:
            continue
        release = release_of(found)
        if release is not None and not first <= release < beyond:
            wanted = _range(first, beyond)
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


def _range(first: tuple[int, ...], beyond: tuple[int, ...]) -> str:
    return f">={'.'.join(map(str, first))},<{'.'.join(map(str, beyond))}"
