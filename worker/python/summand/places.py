"""Finds the program summand, and its library."""

import errno
import os
import shutil
import sysconfig

from summand.error import SummandError

LIBRARY = "libsummand.so.0"
_HERE = os.path.dirname(os.path.realpath(__file__))


def _program_of(home):
    return os.path.join(home, "bin", "summand")


def _is_program(path):
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _homes():
    """Folders with bin and lib in which Summand may be, the most decided one first."""
    if os.environ.get("SUMMAND_HOME"):
        return [os.path.abspath(os.environ["SUMMAND_HOME"])]
    homes = [os.path.normpath(os.path.join(_HERE, "..", "..", "..", ".."))]  # this is HOME/share/summand/python/summand
    try:
        with open(os.path.join(_HERE, "home.txt"), encoding="utf-8") as file:
            homes.append(file.read().rstrip("\n"))  # what pip has installed this package from
    except OSError:
        pass
    on_path = shutil.which("summand")
    if on_path:
        homes.append(os.path.dirname(os.path.dirname(os.path.realpath(on_path))))
    return homes


def program():
    """The path of the program summand."""
    homes = _homes()
    for home in homes:
        if _is_program(_program_of(home)):
            return _program_of(home)
    on_path = shutil.which("summand")
    if on_path and not os.environ.get("SUMMAND_HOME"):
        return on_path
    if os.environ.get("SUMMAND_HOME"):
        raise SummandError(errno.ENOENT, f"SUMMAND_HOME must be a folder with bin/summand, such as build or /usr/local; "
                                         f"there is no {_program_of(homes[0])}")
    raise SummandError(errno.ENOENT, "the program summand must be installed: it is neither on PATH nor beside this package; "
                                     "if it is elsewhere, set SUMMAND_HOME to the folder with bin/summand, such as build "
                                     "or /usr/local")


def libraries():
    """Where libsummand may be: paths, and the name alone, by which the loader finds it."""
    if os.environ.get("SUMMAND_LIBRARY"):
        return [os.environ["SUMMAND_LIBRARY"]]
    folders = ["lib", os.path.join("lib", sysconfig.get_config_var("MULTIARCH") or ""), "lib64"]
    paths = [os.path.join(home, folder, LIBRARY) for home in _homes() for folder in folders]
    return [path for path in paths if os.path.exists(path)] + [LIBRARY]
