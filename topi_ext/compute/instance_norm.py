"""Instance norm where channels lie apart: of rows, each of which one loop reads, sums and writes."""

from typing import Any

from tvm import te, tirx, topi


def instance_norm(
    data: te.Tensor, gamma: te.Tensor | None, beta: te.Tensor | None, *, epsilon: float
) -> te.Tensor:
    """``data`` [N, C, ...] less its mean over ..., by its deviation there; times gamma [C], plus beta [C].

    Deviations are taken from the mean before they are squared (the two-pass form of Chan, Golub and LeVeque,
    1983). The result has the shape and the type of ``data``, which is one of floats.
    """
    inner = list(range(2, len(data.shape)))
    count = tirx.const(1, "int64")
    for axis in inner:
        count = count * data.shape[axis]
    elements = tirx.Cast(data.dtype, count)

    def mean(tensor: te.Tensor, name: str) -> te.Tensor:
        total = topi.sum(tensor, inner)
        return te.compute(total.shape, lambda n, c: total[n, c] / elements, name=name)

    center = mean(data, "center")

    def deviation(index: tuple[Any, ...]) -> Any:
        return data[index] - center[index[:2]]

    squares = te.compute(data.shape, lambda *index: deviation(index) * deviation(index), name="squares")
    variance = mean(squares, "variance")

    def scaled(n: Any, c: Any) -> Any:
        factor = tirx.rsqrt(variance[n, c] + tirx.const(epsilon, data.dtype))
        return factor if gamma is None else factor * gamma[c]

    factor = te.compute(variance.shape, scaled, name="factor")

    def element(*index: Any) -> Any:
        value = deviation(index) * factor[index[:2]]
        return value if beta is None else value + beta[index[1]]

    return te.compute(data.shape, element, name="instance_norm")
