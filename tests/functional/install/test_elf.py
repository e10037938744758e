"""What the dynamic loader reads in the programs and libraries, as built and as installed."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD = os.environ["SUMMAND_BUILD"]
ARCHIVE = BUILD + "/lib/libsmd_%s.a"
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


def cached(name):
    """What CMake found out, or was told."""
    with open(BUILD + "/CMakeCache.txt", encoding="utf-8") as file:
        return dict(re.findall(r"^(\w+):\w+=(.*)$", file.read(), re.M)).get(name)


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
        for name in ("summand", "summand-agent", "summand-digits", "summand-mpi", "summand-perf", "summand-reduction-server",
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

    def test_tables_are_read_only(self):
        """Full RELRO: addresses are bound at start, and their tables cannot be written from then on."""
        for path in self.shipped:
            with self.subTest(path):
                dynamic, segments = readelf("-d", path), readelf("-l", path)
                self.assertRegex(dynamic, r"\(FLAGS\) +BIND_NOW")
                self.assertIn("GNU_RELRO", segments)
                self.assertRegex(segments, r"GNU_STACK .* RW +0x", "the stack must not be executable")
                self.assertNotRegex(segments, r"LOAD .* RWE", "no segment may be written and executed")
                if "/bin/" in path:
                    self.assertRegex(dynamic, r"\(FLAGS_1\).* PIE", "a program must load anywhere")

    def test_overflows_are_caught(self):
        """By stack protector and FORTIFY_SOURCE: their symbols are those of the C library that a file wants."""
        for path in self.shipped:
            with self.subTest(path):
                wanted = set(re.findall(r" UND (\w+)", readelf("--dyn-syms", path)))
                self.assertIn("__stack_chk_fail", wanted)
                if cached("CMAKE_BUILD_TYPE") != "Debug":
                    self.assertTrue(wanted & {"__snprintf_chk", "__vsnprintf_chk", "__memcpy_chk"}, sorted(wanted))

    def test_kernels_pay_nothing(self):
        """Not even for the stack protector: their loops are what the program is for."""
        guarded, member = set(), None
        for line in readelf("--syms", ARCHIVE % "kernels").splitlines():
            if line.startswith("File: "):
                member = re.search(r"\((\w+)", line)[1]
            elif "__stack_chk_fail" in line:
                guarded.add(member)
        self.assertLessEqual(guarded, {"convert", "dispatch"})

    def test_jumps_are_guarded(self):
        """CET: each object says that it goes along; a file says so if the C library's start does, too."""
        if cached("HAVE_fcf_protection") != "1":
            self.skipTest("the compiler has no -fcf-protection for this processor")
        for name in ("base", "wire", "kernels", "transport", "engine"):
            notes = readelf("-n", ARCHIVE % name)
            members = len(re.findall(r"^File: ", notes, re.M))
            self.assertGreater(members, 0)
            self.assertEqual(len(re.findall(r"x86 feature: IBT, SHSTK", notes)), members, ARCHIVE % name)


if not shutil.which("readelf"):
    print("skipped: no readelf to read the programs with")
    raise SystemExit(77)
unittest.main()
