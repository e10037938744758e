"""`pip install FOLDER` without a network, in a new environment; what the package then finds, and says when it finds nothing."""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PYTHON = "/usr/bin/python3"
BUILD = os.environ["SUMMAND_BUILD"]
BUILT = os.path.join(BUILD, "share", "summand", "python")
SOURCE = os.path.join(os.environ["SUMMAND_SOURCE"], "worker", "python")
# Imported without torch, cloudpickle and libsummand; the programs are looked for when they are used.
PROBE = "import summand, sys; from summand import places; assert not {'torch', 'cloudpickle'} & set(sys.modules); " \
        "print(summand.__version__, places.program(), *places.libraries())"


def environment(**variables):
    inherited = {name: value for name, value in os.environ.items()
                 if not name.startswith(("SUMMAND_", "PIP_")) and name != "PYTHONPATH"}
    # No network; the folder of `pip --user` is not looked at.
    return {**inherited, "PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1", "PYTHONNOUSERSITE": "1", **variables}


def run(*words, cwd="/", **variables):
    return subprocess.run(words, env=environment(**variables), cwd=cwd, capture_output=True, text=True, timeout=120)


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="summand package ")  # paths have spaces, too
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.python = os.path.join(cls.folder, "venv", "bin", "python")
        made = run(PYTHON, "-m", "venv", os.path.join(cls.folder, "venv"))
        if made.returncode:
            raise unittest.SkipTest(f"{PYTHON} -m venv: {made.stdout or made.stderr}; python3-venv brings it")
        # Newer Pythons bring neither; pip must not need them.
        for name in "setuptools", "pkg_resources":
            for path in glob.glob(os.path.join(glob.escape(cls.folder), "venv", "lib", "python*", "site-packages", name)):
                shutil.rmtree(path)

    def install(self, *what, cwd="/"):
        done = run(self.python, "-m", "pip", "install", "--quiet", "--force-reinstall", "--no-compile", *what, cwd=cwd)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def probe(self, **variables):
        done = run(self.python, "-c", PROBE, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    def test_from_the_build(self):
        """What was installed from there is used, wherever it is."""
        self.install(".", cwd=BUILT)
        version, program, *libraries = self.probe()
        self.assertEqual(program, os.path.join(BUILD, "bin", "summand"))
        self.assertEqual(libraries[0], os.path.join(BUILD, "lib", "libsummand.so.0"))
        said = run(program, "--version").stdout.split()
        self.assertEqual(version, said[-1], said)

    def test_from_the_source(self):
        before = sorted(os.walk(SOURCE))
        self.install(SOURCE)
        self.assertEqual(sorted(os.walk(SOURCE)), before, "pip must leave the folder as it is")
        done = run(self.python, "-c", PROBE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("SummandError: the program summand must be installed: it is neither on PATH nor beside this package; "
                      "if it is elsewhere, set SUMMAND_HOME", done.stderr)
        expected = os.path.join(BUILD, "bin", "summand")
        self.assertEqual(self.probe(SUMMAND_HOME=BUILD)[1], expected)
        self.assertEqual(self.probe(PATH=f"{BUILD}/bin:/usr/bin")[1:3],
                         [expected, os.path.join(BUILD, "lib", "libsummand.so.0")])
        done = run(self.python, "-c", PROBE, SUMMAND_HOME="/none", PATH=f"{BUILD}/bin:/usr/bin")
        self.assertIn("SUMMAND_HOME must be a folder with bin/summand, such as build or /usr/local; there is no "
                      "/none/bin/summand", done.stderr)

    def test_editable(self):
        """The folder's own files are used: a change there needs no pip."""
        folder = os.path.join(self.folder, "a copy")
        shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("__pycache__"))
        self.install("--editable", folder)
        with open(os.path.join(folder, "summand", "error.py"), "a", encoding="utf-8") as file:
            file.write("CHANGED = 1\n")
        done = run(self.python, "-c", "import summand.error, summand_ddp; print(summand.error.CHANGED)")
        # torch is what summand_ddp cannot find here: it was found itself.
        self.assertIn("No module named 'torch'", done.stderr)
        done = run(self.python, "-c", "import summand.error; print(summand.error.CHANGED)")
        self.assertEqual(done.stdout.split(), ["1"], done.stderr)
        self.install(SOURCE)  # takes its place
        self.assertIn("has no attribute 'CHANGED'", run(self.python, "-c", "import summand.error; summand.error.CHANGED").stderr)

    def test_user(self):
        variables = {"PYTHONUSERBASE": os.path.join(self.folder, "user"), "PYTHONNOUSERSITE": "", "HOME": self.folder}
        done = run(PYTHON, "-m", "pip", "install", "--quiet", "--user", "--no-compile", "--no-warn-script-location", BUILT,
                   PIP_BREAK_SYSTEM_PACKAGES="1", **variables)
        if "No module named pip" in done.stderr:
            self.skipTest(f"{PYTHON} has no pip; python3-pip brings it")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = run(PYTHON, "-c", "import summand; print(summand.__file__)", **variables)
        self.assertTrue(done.stdout.startswith(variables["PYTHONUSERBASE"]), done.stdout + done.stderr)

    def test_a_folder_that_is_not_ours(self):
        """An installed package belongs to root: pip must be able to install from it all the same."""
        if os.getuid() != 0:
            self.skipTest("needs root, to be somebody else")
        prefix = os.path.join(self.folder, "prefix")
        place = os.path.join(prefix, "share", "summand", "python")
        shutil.copytree(BUILT, place, ignore=shutil.ignore_patterns("__pycache__"))
        target = os.path.join(self.folder, "target")
        os.mkdir(target)
        os.chown(target, 65534, 65534)
        os.chmod(self.folder, 0o755)
        done = run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", self.python, "-m", "pip", "install", "--quiet",
                   "--no-cache-dir", f"--target={target}", place)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(os.path.exists(os.path.join(target, "summand", "ddp.py")))

    def test_names(self):
        done = run(PYTHON, "-c", "import summand; summand.TorchDistributer", PYTHONPATH=BUILT)
        self.assertIn("module 'summand' has no attribute 'TorchDistributer'", done.stderr)
        done = run(PYTHON, "-c", "import summand; print(dir(summand))", PYTHONPATH=BUILT)
        self.assertIn("TorchDistributor", done.stdout)

    def test_the_old_name_is_the_same_module(self):
        done = run(PYTHON, "-c", "import summand_ddp, summand.ddp; print(summand_ddp is summand.ddp, summand_ddp._lib()._name)",
                   PYTHONPATH=BUILT)
        if "No module named 'torch'" in done.stderr:
            self.skipTest("needs torch; python3-torch brings it")
        self.assertEqual(done.stdout.split(), ["True", os.path.join(BUILD, "lib", "libsummand.so.0")], done.stderr)


if __name__ == "__main__":
    if not os.path.exists(PYTHON):
        print(f"skipped: {PYTHON} is not here")
        sys.exit(77)
    unittest.main(verbosity=2)
