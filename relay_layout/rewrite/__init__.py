"""From one function to another: inference form before layouts are chosen, the chosen layouts after.

:mod:`.canonicalize` makes the one, :mod:`.rewriter` the other; :mod:`.border` puts in what callers fix.
:mod:`.convert_layout` is the pass: the plan, the rewriter and the verifier.
"""
