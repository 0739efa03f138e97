"""Kernels built and run: on this machine, on boards and on GPUs, in processes of their own."""
