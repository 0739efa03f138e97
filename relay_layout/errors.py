"""Exceptions of the graph level: the family rooted in :class:`topi_ext.errors.RelayLayoutError`."""

from topi_ext.errors import RelayLayoutError


class LayoutError(RelayLayoutError):
    """A layout that cannot be parsed, or that does not fit the shape or operator it is used with."""


class ModelError(RelayLayoutError):
    """A model that cannot be read or imported: missing, truncated, or with an unknown operator."""


class TargetError(RelayLayoutError):
    """A target that is unknown, or that this machine cannot build for or run."""


class ArtifactError(RelayLayoutError):
    """An artifact that cannot be written, is damaged, or was built for another machine."""


class InputError(RelayLayoutError):
    """An array or option given at run time that does not match what the artifact declares."""


class VerificationError(RelayLayoutError):
    """A module whose layouts are inconsistent: a provided layout differs from the expected one."""


class RelayLayoutWarning(UserWarning):
    """Something that was left out, and that whoever asked for it wants to know."""


def printable(text: str) -> str:
    """What a file brings, fit for one line of a message."""
    return "".join(character if character.isprintable() else "?" for character in text)


__all__ = [
    "ArtifactError",
    "InputError",
    "LayoutError",
    "ModelError",
    "RelayLayoutError",
    "RelayLayoutWarning",
    "TargetError",
    "VerificationError",
    "printable",
]
