"""Packages of npm for programs of tests/clients, with the versions that are locked there; what cannot be had skips the test."""

import os
import shutil
import subprocess
import sys

CLIENTS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../clients")
SKIPPED = 77
LONG = 120


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def install(client, least=20):
    """The client's folder, with its packages as package-lock.json has them: kept in the build for the next time."""
    folder = os.path.join(os.environ.get("SUMMAND_BUILD", "build"), "tests", "clients", client)
    if not shutil.which("node") or not shutil.which("npm"):
        skip("there is no node, or no npm")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=LONG, check=True).stdout.strip()
    if int(version.lstrip("v").split(".")[0]) < least:
        skip(f"node must be {least} or later, is {version}")
    shutil.copytree(os.path.join(CLIENTS, client), folder, dirs_exist_ok=True)
    try:
        run = subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=folder, capture_output=True, text=True,
                             timeout=400, check=False)
    except subprocess.TimeoutExpired:
        skip("npm has not answered in time")
    if run.returncode:
        skip(f"npm ci: {run.stderr.strip().splitlines()[-1:]}")
    return folder
