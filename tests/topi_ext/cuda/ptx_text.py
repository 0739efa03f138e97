"""Kernels as PTX, which says what a compiler made of them, and what :mod:`ptx_machine` runs."""

from topi_ext.cuda.codegen.nvcc import compile_source


def compile_ptx(source: str, arch: str) -> str:
    """The PTX of a source for ``arch`` ("sm_80")."""
    return compile_source(source, arch, "ptx")[0].decode()
