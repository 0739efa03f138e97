"""Export of traced and scripted modules, those among them whose tensors hold quantized integers.

PyTorch exports no tensors of quantized integers, as ``torch.ao.quantization.convert`` makes them. Such a
module is run an operation at a time on integers with their scales beside them, and exported so, with the
operations of PT2E quantization.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from relay_layout.errors import ModelError
from relay_layout.frontend.messages import reason
from relay_layout.frontend.torch.operators.quantized import register

_QUANTIZED = ("quantized::", "aten::quantize_per_tensor", "aten::quantized_")


def is_scripted(torch: Any, module: Any) -> bool:
    """Whether a module is traced or scripted, or holds layers of quantized integers, which tracing reads."""
    return isinstance(module, torch.jit.ScriptModule) or any(
        type(part).__module__.startswith("torch.ao.nn.") and ".quantized.modules" in type(part).__module__
        for part in module.modules()
    )


def export_scripted(torch: Any, module: Any, examples: tuple[Any, ...], dynamic: Any) -> Any:
    """The exported program of such a module. ModelError for what cannot be exported."""
    if not isinstance(module, torch.jit.ScriptModule):
        module = torch.jit.trace(module, examples)
    graph = module.inlined_graph
    if any(node.kind().startswith(_QUANTIZED) for node in graph.nodes()):
        register()
        from relay_layout.frontend.torch.quantized_script import QuantizedScript

        plain = QuantizedScript(torch.jit.freeze(module) if hasattr(module, "training") else module)
    else:
        converter = _converter()
        try:
            with _unlogged():
                plain = converter(module, examples).convert().module()
        except Exception as error:
            raise ModelError(
                f"this script or trace cannot be exported ({reason(error)}); give the module itself, or "
                "export it to ONNX and read that"
            ) from None
    return torch.export.export(plain, examples, dynamic_shapes=dynamic, strict=False)


@contextmanager
def _unlogged() -> Iterator[None]:
    """Without what torch logs of sizes that it takes for open while it converts."""
    log = logging.getLogger("torch._export.non_strict_utils")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def _converter() -> Callable[[Any, Sequence[Any]], Any]:
    try:
        from torch._export.converter import TS2EPConverter
    except ImportError as error:
        raise ModelError(
            f"this torch cannot export a scripted module ({reason(error)}); give the module itself"
        ) from None
    converter: Callable[[Any, Sequence[Any]], Any] = TS2EPConverter
    return converter
