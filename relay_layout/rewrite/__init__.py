"""From one function to another: inference form before layouts are chosen, the chosen layouts after.

:mod:`.conversion` does both. :mod:`.canonicalize` makes the one, by operators that are recognised
(:mod:`.recognition`), constants that are folded (:mod:`.fold`) and other forms of calls; the sides of
branches become functions of their own before (:mod:`.branch_functions`). :mod:`.convert_layout` is the pass
that makes the other: :mod:`.border` puts in what callers fix, :mod:`relay_layout.choice` decides,
:mod:`.rewriter` rewrites and :mod:`relay_layout.verify` proves it.
"""
