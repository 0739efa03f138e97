"""Names of the functions in an artifact's library, which compiling makes and running calls."""

MAIN = "main"
"""Takes the inputs, what DESTINATIONS gives, the weights in their order, and what WORKSPACE gives; gives the
outputs.
"""

DESTINATIONS = "main_destinations"
"""Takes nothing and gives a tuple of tensors: memory that MAIN computes outputs in.

A caller may pass other memory of the same shapes, of its own for each call. Outputs that are also something
else, such as an input, or whose extents are only known at run time, have none.
"""

OUTPUTS = "main_outputs"
"""Takes nothing and gives a tuple of shapes, one for each output: the number of the tensor of DESTINATIONS
that it lies in, and then its extents.

That of an output is empty which has none, or whose memory an output before it has.
"""

WORKSPACE = "main_workspace"
"""Takes nothing and gives a tuple of tensors: the memory of intermediate results."""

ALONE = "main_alone"
"""As MAIN, but takes inputs and weights only and allocates in each call.

It is for callers in another process, where an argument arrives as a copy, so that views of one tensor
would become tensors of their own.
"""
