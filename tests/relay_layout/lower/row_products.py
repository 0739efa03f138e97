"""Products of rows whose number is not known, and how they are checked."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tvm import IRModule, relax, tirx

import relay_layout
from tests.relax_modules import main_of

Extents = Sequence[int | str]

ROWS: dict[str, tuple[Extents, list[tuple[int, ...]]]] = {
    "rows": (("n",), [(1,), (2,), (3,), (7,), (8,), (9,), (16,), (17,), (100,), (0,)]),
    "batch_and_rows": (("n", "s"), [(1, 1), (3, 5), (2, 40), (3, 0), (0, 3)]),
    "rows_of_one": ((1, "s"), [(1, 1), (1, 33)]),
    "few_rows_each": (("n", 3), [(1, 3), (7, 3)]),
    "rows_of_images": (("n", "h", 2), [(1, 1, 2), (2, 5, 2)]),
}
"""Extents of the rows, names for those that are not known, and numbers for these."""


class RowProduct:
    """Rows by a matrix, with a bias, ReLU, and what was added to them."""

    def __init__(self, rows: Extents, elements: int, columns: int) -> None:
        random = np.random.default_rng(2)
        self.elements = elements
        self.matrix = random.standard_normal((elements, columns)).astype("float32")
        self.bias = random.standard_normal(columns).astype("float32")
        self.residual = random.standard_normal((columns, columns)).astype("float32")
        symbols = {name: tirx.Var(name, "int64") for name in rows if isinstance(name, str)}
        shape = [symbols[extent] if isinstance(extent, str) else extent for extent in rows]
        data = relax.Var("x", relax.TensorType([*shape, elements], "float32"))
        with main_of(data) as builder:
            product = builder.emit(relax.op.matmul(data, relax.const(self.matrix)))
            added = builder.emit(relax.op.add(product, relax.const(self.bias)))
            activated = builder.emit(relax.op.nn.relu(added))
            second = builder.emit(relax.op.matmul(activated, relax.const(self.residual)))
            builder.result = relax.op.add(second, activated)
        self.module: IRModule = builder.finalize()

    def expected(self, data: np.ndarray) -> np.ndarray:
        activated = np.maximum(data @ self.matrix + self.bias, 0)
        return activated @ self.residual + activated

    def functions(self, sizes: Sequence[tuple[int, ...]], directory: Path) -> list[str]:
        """The functions that it calls; it gives what numpy gives, of all ``sizes``."""
        compiled = relay_layout.compile(self.module, shipped_records=False)
        compiled.save(directory / "product.rla")
        session = relay_layout.load(directory / "product.rla")
        for size in sizes:
            data = np.random.default_rng(3).standard_normal((*size, self.elements)).astype("float32")
            (found,) = session.run({"x": data}).values()
            expected = self.expected(data)
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3, err_msg=str(size))
        return called(compiled)


def called(compiled: relay_layout.CompiledModel) -> list[str]:
    """The functions that a network calls, in order."""
    (build,) = compiled.manifest.builds
    return [call["function"] for call in build.report["calls"]]
