"""A network as a folder that a C++ program runs, without Python."""

from relay_layout.deployment.folder import Exported, export_folder

__all__ = ["Exported", "export_folder"]
