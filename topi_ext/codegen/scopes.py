"""Storage scopes of buffers that :mod:`topi_ext.codegen.build` places; schedules give them."""

START = "global.start"
"""The scope of the buffer that holds the initial values of sums."""

SUMS = "global.sums"
"""The scope of the buffer that sums are stored in, which begins with a cache line."""
