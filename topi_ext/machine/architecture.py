"""The architecture that code is for, by LLVM's triple of a target."""

from tvm.target import Target
from tvm.target.codegen import llvm_get_system_triple


def is_aarch64(target: Target) -> bool:
    """Is code for ``target`` that of a 64-bit ARM processor?"""
    return architecture_of(target) == "aarch64"


def architecture_of(target: Target) -> str:
    """The architecture of the machines that run code for ``target``, such as ``x86_64`` or ``aarch64``."""
    return architecture_in(triple_of(target))


def triple_of(target: Target) -> str:
    """LLVM's triple of what code for ``target`` runs on."""
    return str(target.attrs.get("mtriple", "")) or str(llvm_get_system_triple())


def architecture_in(triple: str) -> str:
    """The architecture that a triple of LLVM's names; Apple's ``arm64`` is ``aarch64`` as well."""
    name = triple.split("-", 1)[0]
    return "aarch64" if name.startswith(("aarch64", "arm64")) else name
