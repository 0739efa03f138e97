"""The product's exceptions: one family, so that a caller needs one ``except``.

The root lives at kernel level because dependencies point from ``relay_layout`` to ``topi_ext``.
"""


class RelayLayoutError(ValueError):
    """Something the caller can mend; the message says what is wrong, where, and what to do.

    The command line prints the message as one line and exits with 2.
    """


class CudaError(RelayLayoutError):
    """CUDA code that cannot be compiled, or knobs that do not fit a multiprocessor."""
