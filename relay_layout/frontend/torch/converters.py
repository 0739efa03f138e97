"""All converters of PyTorch's operations: those here, and TVM's where there is none."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from tvm import relax
from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

from relay_layout.frontend.torch import memory
from relay_layout.frontend.torch.extents.agreement import agreeing
from relay_layout.frontend.torch.extents.known_numbers import Numbers, known
from relay_layout.frontend.torch.node import Converter
from relay_layout.frontend.torch.operators import (
    arithmetic,
    counted,
    images,
    indexing,
    matrices,
    norms,
    open_extents,
    open_numbers,
    pooling,
    products,
    quantized,
    random_numbers,
    recurrent,
    regions,
    resizing,
    scans,
    scattering,
)
from relay_layout.frontend.torch.operators.program_bodies import BODY_NAMES, ProgramBodies
from relay_layout.ir import Expression, dtype_of, shape_of

_CONVERTERS: Mapping[str, Converter] = {
    **memory.CONVERTERS,
    **arithmetic.CONVERTERS,
    **counted.CONVERTERS,
    **images.CONVERTERS,
    **indexing.CONVERTERS,
    **matrices.CONVERTERS,
    **norms.CONVERTERS,
    **open_extents.CONVERTERS,
    **open_numbers.CONVERTERS,
    **pooling.CONVERTERS,
    **products.CONVERTERS,
    **random_numbers.CONVERTERS,
    **recurrent.CONVERTERS,
    **regions.CONVERTERS,
    **resizing.CONVERTERS,
    **scans.CONVERTERS,
    **scattering.CONVERTERS,
}


def converters(program: Any, numbers: Numbers, bodies: ProgramBodies) -> dict[str, Converter]:
    """Ours, for TVM's ``from_exported_program`` of this program, as its ``custom_convert_map``.

    ``numbers`` are those that are known of the program (:func:`.extents.known_numbers.known_numbers`).
    ``bodies`` takes the functions that loops and branches run.
    """
    found = _own(program)
    found = {**found, **agreeing(program, found)}
    if numbers:
        found = {name: _settled(converter, numbers) for name, converter in found.items()}
    found |= bodies.converters(frozenset(found))
    return found


def _own(program: Any) -> dict[str, Converter]:
    return {**_CONVERTERS, **quantized.converters(program)}


def _settled(converter: Converter, numbers: Numbers) -> Converter:
    """The converter, with numbers for extents of its result that are known, and that TVM has as open."""

    def convert(node: Any, importer: Any) -> Expression:
        found = converter(node, importer)
        # What is computed of known numbers alone is one, in Python.
        held = shape_of(found) if isinstance(getattr(found, "ty", None), relax.TensorType) else None
        extents = getattr(node.meta.get("val"), "shape", ())
        if held is None or len(held) != len(extents):
            return found
        settled = [known(extent, numbers) for extent in extents]
        shape = [one if isinstance(one, int) else extent for one, extent in zip(settled, held, strict=True)]
        if all(isinstance(one, int) or one is other for one, other in zip(held, shape, strict=True)):
            return found
        kind = relax.TensorType(relax.ShapeExpr(shape), dtype_of(found))
        return importer.block_builder.match_cast(found, kind)

    return convert


def known_names(program: Any) -> frozenset[str]:
    """The names of operations that can be converted in this program."""
    return _of_tvm() | frozenset(_own(program)) | BODY_NAMES


def is_convertible(name: str) -> bool:
    """Whether there is a converter for the operation of that name, such as "add.Tensor"."""
    return name in _CONVERTERS or name in _of_tvm()


@cache
def _of_tvm() -> frozenset[str]:
    return frozenset(name for name in ExportedProgramImporter().convert_map if isinstance(name, str))
