"""Schedule rules for CPUs with vector units, one kernel family per file.

:mod:`.direct`, :mod:`.winograd` and :mod:`.separable` are convolutions with knobs, :mod:`.loops` is what
takes every function that no other rule takes.
"""
