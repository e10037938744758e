"""Runs the tests of a file several at once, each in a process of its own: most of them wait for processes.

A file ends with at_once.main() in place of unittest.main(). With arguments that is unittest.main(): a name runs one test.
"""

import concurrent.futures
import re
import subprocess
import sys
import time
import unittest

WIDTH = 4     # tests at once; the test's PROCESSORS in CMake
SKIPPED = 77  # exit code when no test could run


def names_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from names_of(test)
        else:
            yield test.id().removeprefix("__main__.")


def run_one(name):
    begin = time.monotonic()
    done = subprocess.run([sys.executable, sys.argv[0], name], check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    return name, done.returncode, done.stdout, time.monotonic() - begin


def main():
    if len(sys.argv) > 1:
        unittest.main()
    names = list(names_of(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])))
    failed, skipped = [], []
    with concurrent.futures.ThreadPoolExecutor(WIDTH) as pool:
        for name, code, output, seconds in pool.map(run_one, names):
            reasons = re.search(r"^OK \(skipped=\d+\)$", output, re.MULTILINE)
            word = "FAILED" if code else "skipped" if reasons else "ok"
            print(f"{name}: {word} in {seconds:.1f} s", flush=True)
            if code or reasons:
                print(output, flush=True)
            failed += [name] * (code != 0)
            skipped += [name] * (code == 0 and reasons is not None)
    print(f"{len(names)} tests, {len(failed)} failed, {len(skipped)} skipped")
    sys.exit(1 if failed or not names else SKIPPED if len(skipped) == len(names) else 0)
