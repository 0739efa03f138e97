"""Relay's layout conversion and tuned convolution kernels for today's Apache TVM.

>>> import relay_layout
>>> compiled = relay_layout.compile("resnet18")
>>> compiled.save("resnet18.rla")
>>> outputs = relay_layout.load("resnet18.rla").run({"input": image})

Names are loaded when they are first used, so that importing the package is quick and needs nothing
but numpy.
"""

# Nothing is imported here: until the command handles interrupts, one would end in a traceback.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from relay_layout.compiler import CompiledModel, Conversion, compile, convert
    from relay_layout.environment.versions import __version__
    from relay_layout.errors import RelayLayoutError
    from relay_layout.explainer import explain
    from relay_layout.frontend import from_onnx, from_tflite, from_torch
    from relay_layout.layout import Layout
    from relay_layout.relax_pipeline import pipeline
    from relay_layout.rewrite.convert_layout import ConvertLayout
    from relay_layout.runtime.session import Session, load

_HOMES = {
    "CompiledModel": "compiler",
    "Conversion": "compiler",
    "ConvertLayout": "rewrite.convert_layout",
    "Layout": "layout",
    "RelayLayoutError": "errors",
    "Session": "runtime.session",
    "compile": "compiler",
    "convert": "compiler",
    "explain": "explainer",
    "from_onnx": "frontend",
    "from_tflite": "frontend",
    "from_torch": "frontend",
    "__version__": "environment.versions",
    "load": "runtime.session",
    "pipeline": "relax_pipeline",
}

__all__ = [
    "CompiledModel",
    "Conversion",
    "ConvertLayout",
    "Layout",
    "RelayLayoutError",
    "Session",
    "__version__",
    "compile",
    "convert",
    "explain",
    "from_onnx",
    "from_tflite",
    "from_torch",
    "load",
    "pipeline",
]


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        from relay_layout.errors import __all__ as errors

        place = f"; it is relay_layout.errors.{name}" if name in errors else ""
        raise AttributeError(f"module 'relay_layout' has no attribute '{name}'{place}")
    from importlib import import_module

    from relay_layout.environment.versions import needed_packages
    from relay_layout.environment.without_torch import without_torch

    with needed_packages(), without_torch():
        return getattr(import_module(f"relay_layout.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
