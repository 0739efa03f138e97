"""Names of the functions in an artifact's library, which compiling makes and running calls."""

MAIN = "main"
"""Takes the inputs, the weights in their order, and what WORKSPACE gives; gives the outputs."""

WORKSPACE = "main_workspace"
"""Takes nothing and gives a tuple of tensors: the memory of intermediate results."""

ALONE = "main_alone"
"""As MAIN, but takes inputs and weights only and allocates in each call.

It is for callers in another process, where an argument arrives as a copy, so that views of one tensor
would become tensors of their own.
"""

__all__ = ["ALONE", "MAIN", "WORKSPACE"]
