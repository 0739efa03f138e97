"""CUDA: facts of the multiprocessors, knobs, code generation with nvcc. Nothing here needs a GPU.

Convolutions (:mod:`.workload`) are matrix products (:mod:`.knobs`, :mod:`.gemm_space`), Winograd's
(:mod:`.winograd`) or depthwise (:mod:`.depthwise`), on a :mod:`.multiprocessor`. What computes them is in
:mod:`.compute`, their loops in :mod:`.schedule`, their instructions in :mod:`.codegen`.
"""
