"""Google's Node client, unmodified, from npm: tests/clients/node. Without Node, npm or its registry it is skipped."""

import subprocess
import unittest

import npm
from served import LONG, ServiceTest


class Node(ServiceTest):
    def test_the_client_finds_all_as_it_should_be(self):
        self.serve("--oversubscribe", "--ready-timeout=120")
        run = subprocess.run(["node", "client.js", f"{self.service.host}:{self.service.port}"], cwd=FOLDER, capture_output=True,
                             text=True, timeout=LONG, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr + self.service.said())


if __name__ == "__main__":
    FOLDER = npm.install("node")
    unittest.main()
