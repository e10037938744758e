"""What the dynamic loader reads in the programs and libraries, as built and as installed."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD = os.environ["SUMMAND_BUILD"]
LINKS_ELSEWHERE = {"summand-nccl-perf"}  # finds NCCL and the CUDA runtime where it was linked with them


def elf_files(folder):
    for parent, _, names in os.walk(folder):
        for name in sorted(names):
            path = os.path.join(parent, name)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                start = file.read(18)
            if start[:4] == b"\x7fELF" and int.from_bytes(start[16:18], "little") in (2, 3):  # not an object
                yield path


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], capture_output=True, text=True, check=True).stdout


class ElfTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        root = tempfile.TemporaryDirectory()
        cls.addClassCleanup(root.cleanup)
        subprocess.run(["cmake", "--install", BUILD, "--prefix", root.name + "/usr"], stdout=subprocess.DEVNULL, check=True)
        cls.installed = list(elf_files(root.name))
        cls.shipped = [*elf_files(BUILD + "/bin"), *elf_files(BUILD + "/lib"), *cls.installed]
        cls.all = [*cls.shipped, *elf_files(BUILD + "/tests")]

    def test_all_are_seen(self):
        for name in ("summand", "summand-agent", "summand-digits", "summand-perf", "summand-reduction-server",
                     "libnccl-net-summand.so"):
            paths = [path for path in self.shipped if os.path.basename(path) == name]
            self.assertEqual(len(paths), 2, f"{name} must be built and installed once each, got {paths}")

    def test_no_library_from_the_current_directory(self):
        for path in self.all:
            for kind, value in re.findall(r"\((R(?:UN)?PATH)\).*\[(.*)\]", readelf("-d", path)):
                for element in value.split(":"):
                    with self.subTest(path, kind=kind, value=value):
                        if os.path.basename(path) in LINKS_ELSEWHERE and element.startswith("/"):
                            self.assertFalse(element.startswith(BUILD), "nothing is installed in the build tree")
                            continue
                        self.assertRegex(element, r"^\$ORIGIN(/|$)", "each element must begin with $ORIGIN")


if not shutil.which("readelf"):
    print("skipped: no readelf to read the programs with")
    raise SystemExit(77)
unittest.main()
