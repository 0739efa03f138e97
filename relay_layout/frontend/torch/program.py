"""Import of PyTorch programs: modules, ``torch.export`` programs and ``.pt2`` files."""

import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tvm
from tvm import relax

from relay_layout.environment.one_at_a_time import one_at_a_time
from relay_layout.environment.versions import release_of
from relay_layout.errors import ModelError
from relay_layout.frontend.files import read_bytes
from relay_layout.frontend.input_shapes import unknown_input
from relay_layout.frontend.messages import reason
from relay_layout.frontend.torch.extents.guards import conditions
from relay_layout.frontend.torch.extents.input_extents import multiples, with_plain_extents, with_shapes
from relay_layout.graph.border import CONDITIONS, DECLARED
from relay_layout.ir import shape_of

if TYPE_CHECKING:
    import torch

Shapes = Mapping[str, Sequence[int]]

OLDEST = (2, 9)
"""The first release of torch whose programs say what their open sizes must satisfy."""


@one_at_a_time
def from_torch(
    model: "torch.nn.Module | torch.export.ExportedProgram | str | os.PathLike[str]",
    example_inputs: Sequence[Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    dim_orders: Mapping[str, Sequence[int]] | None = None,
    input_shapes: Shapes | None = None,
) -> "tvm.IRModule":
    """A PyTorch program as a Relax module.

    ``model`` is a module in evaluation mode, which may be traced or scripted, with ``example_inputs`` (and
    ``dynamic_shapes``, as ``torch.export.export`` takes them), an exported program, or a ``.pt2`` file; any
    of them may be quantized by PT2E, modules also by ``torch.ao.quantization.convert``. ``input_shapes`` give
    the dimensions that the program leaves open.

    Shapes are the program's own, convolutions NCHW. How tensors lie in memory is declared in the attributes
    "input_dim_orders" and "output_dim_orders" of "main", for each input as the example lay, for each output
    as the program's own operations leave it. ``dim_orders``, by input name, says it where the strides of an
    example say nothing, as of an image with one channel; without it such an input lies in plain order.
    Operations that only change memory order stand in the module as calls of
    :func:`relay_layout.dim_orders.to_dim_order`; ``as_strided`` reads the memory that PyTorch has there.

    An extent of an input may be a multiple of a dimension, or that and a number. NaN is treated as
    :func:`.from_onnx` has it.

    Arguments that are no tensors are what they were at export, and results that are None are left out.

    ModelError for what cannot be read or exported, for programs that draw random numbers, for operations that
    are not supported, and without torch or with one before :data:`OLDEST`.
    """
    torch = _require_torch()
    label = f"model '{Path(model)}'" if isinstance(model, str | os.PathLike) else "torch program"
    program = exported(torch, model, example_inputs, dynamic_shapes, label)
    # Only now: these lean on torch.
    from relay_layout.frontend.torch.arguments import all_names, input_names
    from relay_layout.frontend.torch.memory import declared_orders

    try:
        module, known = _converted(program, label)
        names = input_names(program)
        inputs, outputs = declared_orders(program)
        for name, order in (dim_orders or {}).items():
            place = _place(name, names, label)
            inputs[place] = _checked(order, len(inputs[place]), f"{label}: input '{name}'")
        ranks = {
            name: len(shape_of(one) or ()) for name, one in zip(names, module["main"].params, strict=True)
        }
        asked = conditions(program, all_names(program), ranks, input_shapes or {}, label, known)
        module = with_shapes(module, names, input_shapes or {}, label)
        # After those of the program, which say the same of some.
        asked = list(dict.fromkeys((*asked, *multiples(module, names, label))))
        module = with_plain_extents(module, label)
        main = module["main"].with_attr("input_names", names).with_attr(CONDITIONS, asked)
        for attribute, orders in zip(DECLARED, (inputs, outputs), strict=True):
            main = main.with_attr(attribute, orders)
        module.update_func(module.get_global_var("main"), main)
        return relax.transform.Normalize()(module)
    except ModelError:
        raise
    except Exception as error:
        # An importer of another project fails in ways of its own.
        raise ModelError(f"{label} cannot be imported: {reason(error)}") from None


def _converted(program: Any, label: str) -> tuple["tvm.IRModule", list[str]]:
    """A program's module, with its own extents and names, and what it asks of sizes but for its guards."""
    # Only now: these lean on torch and on TVM's importer, which needs it.
    from tvm.relax.frontend.torch import from_exported_program

    from relay_layout.frontend.torch import folding
    from relay_layout.frontend.torch.arguments import (
        check_arguments,
        check_types,
        renormalized,
        without_constants,
    )
    from relay_layout.frontend.torch.checks import check_operations, check_outputs
    from relay_layout.frontend.torch.control_flow import settled
    from relay_layout.frontend.torch.converters import converters, known_names
    from relay_layout.frontend.torch.decompositions import apart
    from relay_layout.frontend.torch.extents.counted_rows import row_conditions
    from relay_layout.frontend.torch.extents.known_numbers import known_numbers, put_known_numbers
    from relay_layout.frontend.torch.extents.multiples import ask_for_multiples
    from relay_layout.frontend.torch.memory import check_strides
    from relay_layout.frontend.torch.operators.program_bodies import ProgramBodies
    from relay_layout.frontend.torch.repetitions import once

    with _quiet():
        decomposed = once(without_constants(apart(program, label), renormalized(program)))
        numbers = known_numbers(decomposed)
        put_known_numbers(decomposed, numbers)
        check_strides(program, decomposed, label)
        decomposed = settled(decomposed, label)
        folding.fold_constants(decomposed)
        check_types(decomposed, label)
        check_operations(decomposed, known_names(decomposed), label)
        check_arguments(decomposed, label)
        known = [*ask_for_multiples(decomposed), *row_conditions(decomposed)]
        bodies = ProgramBodies()
        module = from_exported_program(
            decomposed,
            unwrap_unit_return_tuple=True,
            custom_convert_map=converters(decomposed, numbers, bodies),
            run_ep_decomposition=False,
        )
        module = bodies.added_to(module)
    check_outputs(decomposed, module, label)
    return module, known


def _require_torch() -> Any:
    try:
        import torch
    except ImportError:
        raise ModelError("reading PyTorch programs needs torch: pip install 'relay-layout[torch]'") from None
    if (release_of(torch.__version__) or OLDEST) < OLDEST:
        raise ModelError(
            f"reading PyTorch programs needs torch {'.'.join(map(str, OLDEST))} or newer, and this is "
            f"{torch.__version__}: pip install 'relay-layout[torch]'"
        )
    return torch


def exported(torch: Any, model: Any, examples: Sequence[Any] | None, dynamic: Any, label: str) -> Any:
    """The exported program of any kind of model."""
    from relay_layout.frontend.torch.rules.recurrent import kept_whole
    from relay_layout.frontend.torch.scripted import export_scripted, is_scripted

    if isinstance(model, torch.nn.Module):
        if not isinstance(examples, list | tuple):
            raise ModelError(
                "a torch module needs example inputs, in a tuple: relay_layout.from_torch(module, (example,))"
            )
        # Frozen scripts are in no mode.
        if getattr(model, "training", False) and not _is_exported(torch, model):
            raise ModelError("the torch module is in training mode: call its eval() first")
        _check_quantized(examples)
        try:
            with _quiet(), kept_whole():
                if is_scripted(torch, model):
                    return export_scripted(torch, model, tuple(examples), dynamic)
                return torch.export.export(model, tuple(examples), dynamic_shapes=dynamic, strict=False)
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(f"torch.export cannot export the module: {reason(error)}") from None
    if not isinstance(model, torch.export.ExportedProgram | str | os.PathLike):
        raise ModelError(
            f"a {type(model).__name__} is no torch program: give a module, an exported program or a .pt2 file"
        )
    if examples is not None or dynamic is not None:
        raise ModelError("an exported program has its inputs: give example inputs with a torch module only")
    if isinstance(model, torch.export.ExportedProgram):
        return model
    # For what is wrong with the path itself; torch reads the file on its own.
    read_bytes(Path(model))
    from relay_layout.frontend.torch.operators.quantized import register

    register()
    said, log = _Said(), logging.getLogger("torch.export")
    log.addFilter(said)
    try:
        with _quiet():
            return torch.export.load(Path(model))
    except Exception as error:
        why = reason(said.error or error).partition(". ")[0]
        raise ModelError(f"{label} is not a readable torch.export program: {why}") from None
    finally:
        log.removeFilter(said)


def _check_quantized(examples: Sequence[Any]) -> None:
    """ModelError for inputs that PyTorch quantized eagerly, which export cannot hold."""
    for place, one in enumerate(examples):
        if getattr(one, "is_quantized", False):
            raise ModelError(
                f"torch program: input {place} is quantized in PyTorch's eager mode, which export cannot "
                "hold; begin the module with a torch.ao.quantization.QuantStub, or quantize it by PT2E "
                "(torchao.quantization.pt2e)"
            )


def _is_exported(torch: Any, model: Any) -> bool:
    """Whether a module is what export makes of a program, as quantized ones are.

    Those are always in training mode, have no eval(), and hold operations alone: what training would change
    is written in these.
    """
    if not isinstance(model, torch.fx.GraphModule):
        return False
    called = {node.target for node in model.graph.nodes if node.op == "call_module"}
    # Export leaves one module of its own, which checks the inputs.
    return all(type(model.get_submodule(name)).__module__.startswith("torch.export.") for name in called)


class _Said(logging.Filter):
    """Drops what torch logs of a file that it cannot read, and keeps the error with which it began."""

    def __init__(self) -> None:
        super().__init__()
        self.error: BaseException | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """False, for every record."""
        error = record.exc_info[1] if record.exc_info else None
        while error is not None and error.__cause__ is not None:
            error = error.__cause__
        self.error = self.error or error
        return False


@contextmanager
def _quiet() -> Any:
    """Without what torch and TVM say to their own developers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _place(name: str, names: Sequence[str], label: str) -> int:
    if name not in names:
        raise unknown_input(label, name, names)
    return names.index(name)


def _checked(order: Sequence[int], rank: int, place: str) -> list[int]:
    if isinstance(order, str) or not all(isinstance(axis, Integral) for axis in order):
        raise ModelError(
            f"{place}: {order!r} is no dim_order; write the dimensions as numbers, "
            "such as (0, 2, 3, 1) for NHWC over NCHW"
        )
    found = [int(axis) for axis in order]
    if sorted(found) != list(range(rank)):
        raise ModelError(
            f"{place}: dim_order {tuple(found)} does not name each of its {rank} dimensions once"
        )
    return found
