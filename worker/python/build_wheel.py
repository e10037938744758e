"""Packs this folder into a wheel, as pip asks for it (PEP 517, PEP 660)."""

import base64
import hashlib
import os
import re
import zipfile

FOLDER = os.path.dirname(os.path.realpath(__file__))
PREFIX = os.path.normpath(os.path.join(FOLDER, "..", "..", ".."))  # this is PREFIX/share/summand/python, if installed

METADATA = """Metadata-Version: 2.1
Name: summand
Version: {version}
Summary: Distributed training jobs, and all-reduce through reduction servers
License: Apache-2.0
Requires-Python: >=3.8
"""

WHEEL = """Wheel-Version: 1.0
Generator: summand
Root-Is-Purelib: true
Tag: py3-none-any
"""


def _read(*path):
    with open(os.path.join(FOLDER, *path), encoding="utf-8") as file:
        return file.read()


def _files():
    """Path in the wheel -> content."""
    files = {"summand_ddp.py": _read("summand_ddp.py")}
    for name in sorted(os.listdir(os.path.join(FOLDER, "summand"))):
        if name.endswith(".py"):
            files["summand/" + name] = _read("summand", name)
    # Once installed the package is far from the programs that it belongs to, so it takes along where they are.
    if os.path.exists(os.path.join(PREFIX, "bin", "summand")):
        files["summand/home.txt"] = PREFIX + "\n"
    return files


def _record(path, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}\n"


def _pack(wheel_directory, files):
    version = re.search(r'^__version__ = "(.*)"$', _read("summand", "__init__.py"), re.MULTILINE)[1]
    place = f"summand-{version}.dist-info"
    files = {**files, f"{place}/METADATA": METADATA.format(version=version), f"{place}/WHEEL": WHEEL}
    record = "".join(_record(path, text.encode()) for path, text in files.items()) + f"{place}/RECORD,,\n"
    name = f"summand-{version}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, text in {**files, f"{place}/RECORD": record}.items():
            wheel.writestr(path, text)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _pack(wheel_directory, _files())


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """`pip install --editable`: the modules stay in this folder, and Python is told to look there."""
    return _pack(wheel_directory, {"summand.pth": FOLDER + "\n"})


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("summand has no source distribution of its own: pip install takes this folder")
