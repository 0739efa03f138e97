"""Tables of bytes on an emulated board, whose processor looks into them with TBL and TBX."""

from pathlib import Path

import numpy as np
from tvm import relax

from relay_layout.quantization.lookup import lookup
from tests.board.networks import on_board
from tests.board.servers import Boards

SHAPES = [(2, 16, 9, 9), (5, 7), (300,)]


def test_each_byte_has_its_element(boards: Boards, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    tables = [random.permutation(256).astype("uint8") for _ in SHAPES]
    inputs = {f"x{at}": random.integers(0, 256, shape, "uint8") for at, shape in enumerate(SHAPES)}
    builder = relax.BlockBuilder()
    variables = [relax.Var(name, relax.TensorType(data.shape, "uint8")) for name, data in inputs.items()]
    with builder.function("main", variables):
        with builder.dataflow():
            found = [
                builder.emit(lookup(variable, table))
                for variable, table in zip(variables, tables, strict=True)
            ]
            result = builder.emit_output(relax.Tuple(found))
        builder.emit_func_output(result)
    outputs = on_board(builder.finalize(), "none", inputs, boards.remote, tmp_path)
    for at, (table, output) in enumerate(zip(tables, outputs.values(), strict=True)):
        np.testing.assert_array_equal(output, table[inputs[f"x{at}"]])
