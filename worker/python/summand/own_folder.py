"""A folder for as long as its caller needs it: removed at the end, and after a caller that was killed by the next one."""

import contextlib
import fcntl
import glob
import os
import shutil
import tempfile


@contextlib.contextmanager
def own_folder(prefix):
    _remove_left(prefix)
    folder = tempfile.mkdtemp(prefix=prefix)
    lock = _lock(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _lock(folder):
    """Held as long as this process lives."""
    path = os.path.join(folder, "lock")
    lock = os.open(path + ".tmp", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.rename(path + ".tmp", path)  # it is never there unlocked
    return lock


def _remove_left(prefix):
    """What is in those of a notebook's kernel that was killed may be large."""
    for path in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), prefix + "*", "lock")):
        try:
            if os.lstat(os.path.dirname(path)).st_uid != os.geteuid():
                continue
            lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(os.path.dirname(path), ignore_errors=True)
        except OSError:  # its caller lives
            pass
        finally:
            os.close(lock)
