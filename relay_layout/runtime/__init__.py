"""Running artifacts: here (:mod:`.session`) or on a board (:mod:`.remote`), and timing their kernels."""
