"""TVM without PyTorch.

TVM imports PyTorch wherever that is installed, for tensors of PyTorch among the arguments of its functions.
That takes two seconds and 200 MB, and is of no use to a program that does not import PyTorch itself. One that
did so before gets TVM as it is.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PACKAGES = "tvm", "tvm_ffi"


class _Finder:
    """Tells TVM, when it asks for PyTorch, that there is none; finds nothing."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """None, which leaves the search to others; ModuleNotFoundError for PyTorch."""
        if name == "torch" and _importer().partition(".")[0] in _PACKAGES:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)


def _importer() -> str:
    """The module with the ``import`` that is being done."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("importlib."):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


@contextmanager
def without_torch() -> Iterator[None]:
    """TVM may be imported here, and does not import PyTorch; all others may."""
    finder: Any = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
