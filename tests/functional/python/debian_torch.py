"""Goes on under Debian's Python, which python3-torch belongs to, and finds what the build made; or skips the test."""

import importlib.util
import os
import sys

PYTHON = "/usr/bin/python3"
BUILD = os.environ["SUMMAND_BUILD"]


def skip(reason):
    print("skipped: " + reason)
    sys.exit(77)


def require():
    if sys.executable != PYTHON:
        if not os.path.exists(PYTHON):
            skip(f"{PYTHON} is not here")
        os.execv(PYTHON, [PYTHON, *sys.argv])
    if importlib.util.find_spec("torch") is None:
        skip(f"{PYTHON} has no torch; python3-torch brings it")
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    folder = os.path.dirname(os.path.realpath(__file__))
    sys.path[:0] = [os.path.join(folder, "..", "perf"), os.path.join(BUILD, "share", "summand", "python")]
