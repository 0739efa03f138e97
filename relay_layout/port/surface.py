"""What today's packages offer, asked of the packages themselves when a script is ported."""

import importlib
import io
from contextlib import redirect_stderr, redirect_stdout
from types import ModuleType

_PACKAGES = {"relay": "relay_layout.relay", "tvm": "tvm"}


def has_name(dotted: str) -> bool:
    """Whether ``relay.…`` (of this package) or ``tvm.…`` (of the installed TVM) is there.

    Of TVM's names also those count that only an import of their module brings. ImportError if the package
    itself cannot be imported.
    """
    package, *attributes = dotted.split(".")
    found: object = _imported(_PACKAGES[package])
    for depth, attribute in enumerate(attributes):
        try:
            found = getattr(found, attribute)
            continue
        # A surface may say in a family of its own that it lacks a name.
        except Exception:
            if not isinstance(found, ModuleType) or package != "tvm":
                return False
        name = ".".join(["tvm", *attributes[: depth + 1]])
        try:
            found = _imported(name)
        except ModuleNotFoundError as error:
            # A module that is there, and needs another that is not installed here, is there.
            return error.name is not None and not f"{name}.".startswith(f"{error.name}.")
        except Exception:
            return True
    return True


def _imported(name: str) -> ModuleType:
    # What a package says when it is imported is nothing that the script's reader needs.
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return importlib.import_module(name)
