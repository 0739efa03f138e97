"""What kernels need of the machines that a tracker lends."""

import os
from dataclasses import dataclass
from typing import Any

from topi_ext.machine.capabilities import architecture_told, features_told
from topi_ext.tune.measuring.library import ENTRY, Library


@dataclass(frozen=True)
class Needs:
    """The architecture of machines, and CPU features by LLVM's names.

    ``probe`` is a library of :func:`topi_ext.machine.capabilities.capabilities`; without it nobody asks for
    features.
    """

    architecture: str
    features: frozenset[str] = frozenset()
    probe: Library | None = None

    def unmet(self, session: Any) -> str:
        """What is wrong with the machine of a session, in words that follow its name; empty if nothing is.

        A machine that does not tell will do. Raises what TVM raises where the probe does not load.
        """
        found = architecture_told(session)
        if found not in ("", self.architecture):
            return f"is {found}, and kernels for {self.architecture} do not run there"
        if self.probe is None:
            return ""
        session.upload(self.probe.path)
        module = session.load_module(os.path.basename(self.probe.path))
        told = features_told(module[ENTRY], session.device(self.probe.device, 0))
        missing = sorted(self.features - told) if told is not None else []
        return f"lacks {', '.join(missing)}, which the kernels need" if missing else ""
