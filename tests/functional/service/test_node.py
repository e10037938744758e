"""Google's Node client, unmodified, from npm: tests/clients/node. Without Node, npm or its registry it is skipped."""

import os
import shutil
import subprocess
import sys
import unittest

from served import LONG, ServiceTest

SOURCE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../clients/node")
SKIPPED = 77


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def install():
    """The client's folder, with its packages as package-lock.json has them: kept in the build for the next time."""
    folder = os.path.join(os.environ.get("SUMMAND_BUILD", "build"), "tests", "clients", "node")
    if not shutil.which("node") or not shutil.which("npm"):
        skip("there is no node, or no npm")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=LONG, check=True).stdout.strip()
    if int(version.lstrip("v").split(".")[0]) < 20:
        skip(f"node must be 20 or later, is {version}")
    os.makedirs(folder, exist_ok=True)
    for name in ("package.json", "package-lock.json", "client.js"):
        shutil.copy(os.path.join(SOURCE, name), folder)
    try:
        run = subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=folder, capture_output=True, text=True,
                             timeout=400, check=False)
    except subprocess.TimeoutExpired:
        skip("npm has not answered in time")
    if run.returncode:
        skip(f"npm ci: {run.stderr.strip().splitlines()[-1:]}")
    return folder


class Node(ServiceTest):
    def test_the_client_finds_all_as_it_should_be(self):
        self.serve("--oversubscribe", "--ready-timeout=120")
        run = subprocess.run(["node", "client.js", f"{self.service.host}:{self.service.port}"], cwd=FOLDER, capture_output=True,
                             text=True, timeout=LONG, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr + self.service.said())


if __name__ == "__main__":
    FOLDER = install()
    unittest.main()
