"""Products of rows by a constant matrix as pointwise convolutions, whose kernels compute them."""

from collections.abc import Sequence
from typing import Any

from relay_layout.ir import Extent
from relay_layout.targets.convolutions import output_lanes
from topi_ext.workloads.convolution import ConvolutionWorkload

ROWS = {2: "WC", 3: "NWC", 4: "NHWC"}
"""The data layout of rows of a matrix as a convolution, by the rank of the tensor."""


def product_workload(
    shape: Sequence[Extent], columns: int, dtype: str, out_dtype: str | None = None
) -> ConvolutionWorkload:
    """The pointwise convolution that computes rows of ``shape`` by a constant matrix of ``columns``.

    ``shape`` is that of the data, as many axes as :data:`ROWS` has; ``out_dtype`` is ``dtype`` if not given.
    The matrix is stored in vectors of columns, the last one padded.
    """
    layout = ROWS[len(shape)]
    extents: dict[str, Any] = {"N": 1, "H": 1, **dict(zip(layout, shape, strict=True))}
    return ConvolutionWorkload(
        batch=extents["N"],
        in_channels=extents["C"],
        out_channels=columns,
        in_height=extents["H"],
        in_width=extents["W"],
        kernel=(1, 1),
        strides=(1, 1),
        padding=(0, 0, 0, 0),
        dilation=(1, 1),
        groups=1,
        data_layout=layout,
        kernel_layout=f"OI{output_lanes(columns)}o",
        out_layout=layout,
        dtype=dtype,
        out_dtype=out_dtype or dtype,
    )
