"""CUDA: facts of the multiprocessors, knobs, code generation with nvcc. Nothing here needs a GPU."""
