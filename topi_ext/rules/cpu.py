"""Schedule rules of CPU targets: one kernel family per file, in the order in which they are asked."""

from topi_ext.chooser import KernelChooser
from topi_ext.rules.convolution import Convolution
from topi_ext.schedule.cpu.attention import Attention
from topi_ext.schedule.cpu.index_splitting import IndexSplitting
from topi_ext.schedule.cpu.interleaved import Interleaved
from topi_ext.schedule.cpu.loops import LoopNest
from topi_ext.schedule.cpu.open_rows import OpenRows
from topi_ext.schedule.cpu.pooling import WindowPooling
from topi_ext.schedule.cpu.product import Product
from topi_ext.schedule.cpu.row_dots import RowDots
from topi_ext.schedule.cpu.rows import Rows
from topi_ext.schedule.cpu.transpose import Transpose
from topi_ext.schedule.rule import Rule


def cpu_rules(chooser: KernelChooser) -> list[Rule]:
    """The rules of CPU targets, most specific first; the last one takes every function.

    ``chooser`` picks the kernels of convolutions.
    """
    return [
        Convolution(chooser),
        WindowPooling(),
        Attention(),
        Product(),
        RowDots(),
        IndexSplitting(),
        Rows(),
        OpenRows(),
        Transpose(),
        Interleaved(),
        LoopNest(),
    ]
