"""Runs first in the executable, before mqctl.

Libraries that few commands need are unpacked when they are imported. A one-file executable unpacks itself at every
start, and two thirds of the bytes are numpy with its linear algebra, which a broker imports and `mqctl topic list`
does not. mqctl.spec makes an archive of each such library, and the executable carries it along as it is. What is
unpacked here goes where the rest is, into the folder that is removed at the end.
"""

import importlib
import os
import sys

ARCHIVES = f"{sys._MEIPASS}/late"


class LateLibraries:
    """Finds nothing by itself: it unpacks, and the finders after it find."""

    def find_spec(self, name, path=None, target=None):
        # Whoever imports a module holds its lock, so that no two threads are here for the same one.
        if path is None and os.path.exists(archive := f"{ARCHIVES}/{name}.zip"):  # noqa: PTH110 - on every import
            unpack(archive)


def unpack(archive):
    from zipfile import ZipFile

    with ZipFile(archive) as files:
        files.extractall(sys._MEIPASS)
    importlib.invalidate_caches()


def restore_library_path():
    """The loader has read it; programs that mqctl starts, Java and Python among them, must not find our libraries."""
    before = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
    os.environ.pop("LD_LIBRARY_PATH", None)
    if before is not None:
        os.environ["LD_LIBRARY_PATH"] = before


sys.meta_path.insert(0, LateLibraries())
restore_library_path()
