"""Constant matrices as kernels of products read them."""

from relay_layout.ir import Constant, constant, constant_array
from relay_layout.lower.legalize.convolutions import stored_weight
from topi_ext.workloads.convolution import ConvolutionWorkload


class PackedMatrices:
    """Matrices that are packed once.

    One that several products read, as the steps of a recurrent layer do, stays one weight of the artifact.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, str, int], tuple[Constant, Constant]] = {}

    def packed(self, matrix: Constant, form: ConvolutionWorkload, begin: int = 0) -> Constant:
        """As many rows of ``matrix``, from ``begin`` on, as the products of ``form`` have elements to
        multiply.
        """
        key = matrix.__chandle__(), form.kernel_layout, begin
        if key not in self._known:
            # The matrix is kept: its handle is another's once the object is gone.
            rows = constant_array(matrix)[begin : begin + form.in_channels]
            self._known[key] = matrix, constant(stored_weight(rows.T[:, :, None, None], form))
        return self._known[key][1]
