"""What a compilation chose and why, as one file: a page (.html) or its data (.json).

``compile --report`` writes it (:mod:`.choices`, :mod:`.kernels`, :mod:`.files`), ``run --profile --report``
adds measured times (:mod:`.times`), ``explain`` prints it (:mod:`.text`) and ``diff`` compares two
(:mod:`.difference`). :mod:`.drawing` places the operators of a graph, :mod:`.page` makes the page.
"""
