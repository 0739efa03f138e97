"""Files of named arrays, as numpy.savez writes them.

Not through numpy.load and numpy.savez: the one takes damaged files for pickles, the other cannot hold
an array that is called "file" and leaves half a file upon an error.
"""

import os
import zipfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.lib import format as numpy_format

from relay_layout.errors import InputError
from topi_ext.files.whole_file import replaced
from topi_ext.messages import system_reason

Array = np.ndarray[Any, np.dtype[Any]]

# The numpy that Python 3.10 gets has no types for these functions.
npy: Any = numpy_format
_SUFFIX = ".npy"


def read_arrays(path: str) -> dict[str, Array]:
    """The arrays of an .npz file by name. Raises InputError, naming the file, if it is not one."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{path}: not a file")
    try:
        with open(path, "rb") as file:
            if file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
                raise InputError(
                    f"{path}: a single array; save it with its name: numpy.savez(path, NAME=array)"
                )
            with zipfile.ZipFile(file) as archive:
                return {
                    name.removesuffix(_SUFFIX): _read_member(path, archive, name)
                    for name in archive.namelist()
                }
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path}: {system_reason(error)}") from None
    except Exception as error:  # zipfile raises more than BadZipFile for a damaged file
        raise InputError(f"{path}: not a readable .npz file: {str(error) or type(error).__name__}") from None


def _read_member(path: str, archive: zipfile.ZipFile, name: str) -> Array:
    try:
        with archive.open(name) as member:
            array: Array = npy.read_array(member, allow_pickle=False)
            return array
    except Exception as error:  # a damaged member makes zipfile, zlib and numpy raise nearly anything
        what = f"array '{name.removesuffix(_SUFFIX)}' cannot be read"
        raise InputError(f"{path}: {what}: {str(error) or type(error).__name__}") from None


def write_arrays(path: str, arrays: Mapping[str, Array]) -> None:
    """Writes an .npz file, complete or not at all. Raises InputError if it cannot be written."""
    try:
        with replaced(path) as file:
            _write(file, arrays)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {system_reason(error)}") from None


def _write(file: IO[bytes], arrays: Mapping[str, Array]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(name + _SUFFIX, "w", force_zip64=True) as member:
                npy.write_array(member, np.asanyarray(array), allow_pickle=False)
