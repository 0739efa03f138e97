"""Convolutions of any rank, plain and transposed, with what torch makes of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from kernel_harness import check_kernel, host_cpus, integers, prim_func, target_for
from kernel_reference import Array, pack
from tvm import te, tirx

from topi_ext.weights import fill_vectors
from topi_ext.workloads.convolution import padded_lanes

TARGET = target_for(host_cpus()[-1])


@dataclass(frozen=True)
class RankedCase:
    """A convolution; ``image``, ``kernel`` and numbers have one entry for each axis, ``padding`` two.

    Numbers that are left out are 1, paddings 0. One with ``output_padding``, be it (), is transposed.
    """

    channels: tuple[int, int]
    image: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    output_padding: tuple[int, ...] | None = None
    dilation: tuple[int, ...] = ()
    groups: int = 1
    batch: int = 2

    @property
    def spatial(self) -> str:
        return "DHW"[-len(self.image) :]

    @property
    def kernel_order(self) -> str:
        return f"OI{self.spatial}" if self.output_padding is None else f"IO{self.spatial}"

    @property
    def options(self) -> dict[str, Any]:
        """What the compute is called with, beside tensors and layouts."""
        rank = len(self.image)
        given = {
            "strides": self.strides or (1,) * rank,
            "padding": self.padding or (0,) * (2 * rank),
            "dilation": self.dilation or (1,) * rank,
            "groups": self.groups,
        }
        if self.output_padding is not None:
            given["output_padding"] = self.output_padding or (0,) * rank
        return given

    def arrays(self, torch: Any) -> tuple[Array, Array, Array]:
        """Data, weight (:attr:`kernel_order`) and result; torch adds in double precision, so exactly."""
        rng = np.random.default_rng(7)
        inputs, outputs = self.channels
        rank, options = len(self.image), self.options
        low, high = options["padding"][:rank], options["padding"][rank:]
        sizes = (outputs, inputs // self.groups)
        if self.output_padding is not None:
            sizes = (inputs, outputs // self.groups)
        data = integers(rng, (self.batch, inputs, *self.image))
        weight = integers(rng, (*sizes, *self.kernel))
        values = {"stride": options["strides"], "dilation": options["dilation"], "groups": self.groups}
        if self.output_padding is None:
            padded = np.pad(data, [(0, 0), (0, 0), *zip(low, high, strict=True)])
            result = self._of_torch(torch, f"conv{rank}d", padded, weight, values)
            return data, weight, result
        values["output_padding"] = options["output_padding"]
        result = self._of_torch(torch, f"conv_transpose{rank}d", data, weight, values)
        ends = [size - after for size, after in zip(result.shape[2:], high, strict=True)]
        kept = tuple(slice(before, end) for before, end in zip(low, ends, strict=True))
        return data, weight, result[(slice(None), slice(None), *kept)]

    def _of_torch(self, torch: Any, name: str, data: Array, weight: Array, values: dict[str, Any]) -> Array:
        tensors = [torch.tensor(array, dtype=torch.float64) for array in (data, weight)]
        found: Array = getattr(torch.nn.functional, name)(*tensors, **values).numpy().astype("float32")
        return found


def check_ranked(
    case: RankedCase,
    compute: Callable[..., te.Tensor],
    torch: Any,
    layouts: str,
    *,
    any_batch: bool = False,
) -> None:
    """Schedule, run and compare in ``layouts``: those of data, kernel and result."""
    data, kernel, out = layouts.split()
    arrays = case.arrays(torch)
    orders = [f"NC{case.spatial}", case.kernel_order, f"NC{case.spatial}"]
    options = case.options
    lanes = padded_lanes(kernel, out, case.groups, case.channels[1])
    if lanes:
        arrays = (arrays[0], fill_vectors(arrays[1], case.groups, lanes), arrays[2])
        orders[1] = orders[1] if case.groups == 1 else f"G{orders[1]}"
        options["out_channels"] = case.channels[1]
    stored = [pack(*what) for what in zip(arrays, orders, (data, kernel, out), strict=True)]
    shapes: list[tuple[Any, ...]] = [array.shape for array in stored[:2]]
    if any_batch:
        assert data[0] == "N"
        shapes[0] = (tirx.Var("n", "int32"), *shapes[0][1:])
    tensors = [te.placeholder(shape) for shape in shapes]
    made = compute(*tensors, **options, data_layout=data, kernel_layout=kernel, out_layout=out)
    check_kernel(
        prim_func([*tensors, made]),
        TARGET,
        stored[:2],
        stored[2],
        case=case,
    )
