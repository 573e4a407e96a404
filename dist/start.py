"""Runs first in the executable, before mqctl.

Libraries that few commands need are unpacked when they are imported. A one-file executable unpacks itself at every
start, and two thirds of the bytes are numpy with its linear algebra, which a broker imports and `mqctl topic list`
does not. mqctl.spec makes an archive of each such library, and the executable carries it along as it is. What is
unpacked here goes where the rest is, into the folder that is removed at the end.

A server runs for months, and imports things late. Until then nobody may take them away: neither who cleans the folder
for temporary files, nor who puts a new version in the place of the executable.
"""

import fcntl
import importlib
import os
import sys

import pyimod02_importers

ARCHIVES = f"{sys._MEIPASS}/late"
OURSELVES = "/proc/self/exe"  # the file that was started, whatever has its name by now


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


def hold_unpacked():
    """systemd-tmpfiles deletes what nobody used for ten days, but not in folders that somebody has locked."""
    fcntl.flock(os.open(sys._MEIPASS, os.O_RDONLY), fcntl.LOCK_SH)


def hold_executable():
    """Modules are read from it when they are imported; by its name, which PyInstaller has no setting for."""
    if os.path.exists(OURSELVES):  # noqa: PTH110
        pyimod02_importers.pyz_archive._filename = OURSELVES


def restore_library_path():
    """The loader has read it; programs that mqctl starts, Java and Python among them, must not find our libraries."""
    before = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
    os.environ.pop("LD_LIBRARY_PATH", None)
    if before is not None:
        os.environ["LD_LIBRARY_PATH"] = before


sys.meta_path.insert(0, LateLibraries())
hold_unpacked()
hold_executable()
restore_library_path()
