"""Storage scopes of buffers that :mod:`topi_ext.codegen.build` places; schedules give them."""

START = "global.start"
"""Of the buffer that holds the initial values of sums."""

SUMS = "global.sums"
"""Of the buffer that sums are stored in, which begins with a cache line."""
