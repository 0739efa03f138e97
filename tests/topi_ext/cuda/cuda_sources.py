"""The source of kernels, for tests that read it or compile it further."""

import tvm
from tvm import tirx

from topi_ext.cuda.codegen.build import PIPELINE
from topi_ext.cuda.multiprocessor import Multiprocessor


def cuda_source(func: tirx.PrimFunc, multiprocessor: Multiprocessor) -> str:
    """The CUDA source of a scheduled function."""
    scheduled = func.with_attr({"global_symbol": "main", "tirx.is_scheduled": True})
    module = tvm.compile(tvm.IRModule({"main": scheduled}), multiprocessor.target(), tir_pipeline=PIPELINE)
    return str(module.mod.imports[0].inspect_source("cuda"))
