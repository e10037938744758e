"""Runs a file of tests with all their jobs over two hosts: what `summand` starts here, agents start in namespaces.

    over_hosts.py TEST.py [NAME]

Each job's first replica is alone on its host, all others are together on the second one. The tests find a `summand` that
adds the engine's options to their own; those that say something of this machine alone are skipped (hosts.only_here()).
"""

import os
import subprocess
import sys
import tempfile
import time

import hosts

SKIPPED = 77
PATIENCE_S = 120    # agents of a killed runner end their replicas first
SUMMAND = """#!/bin/bash
case "$1 $2" in
"custom-jobs local-run" | "custom-jobs create") exec "{summand}" "$1" "$2" {flags} "${{@:3}}" ;;
*) exec "{summand}" "$@" ;;
esac
"""


def make_build(folder, flags):
    """A build like that of the test, but with this summand."""
    build = os.path.abspath(os.environ["SUMMAND_BUILD"])
    for name in os.listdir(build):
        if name != "bin":
            os.symlink(os.path.join(build, name), os.path.join(folder, name))
    programs = os.path.join(folder, "bin")
    os.mkdir(programs)
    for name in os.listdir(os.path.join(build, "bin")):
        if name != "summand":
            os.symlink(os.path.join(build, "bin", name), os.path.join(programs, name))
    hosts.write_script(os.path.join(programs, "summand"),
                       SUMMAND.format(summand=os.path.join(build, "bin", "summand"), flags=" ".join(f"'{flag}'" for flag in flags)))


def left_in(folder):
    """What agents that have gone have left there."""
    deadline = time.monotonic() + PATIENCE_S
    while os.listdir(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    return os.listdir(folder)


def main():
    if not hosts.can_be_made():
        print("skipped: no network namespaces can be made here")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="summand-hosts-") as folder:
        os.chmod(folder, 0o755)     # some tests change their user
        os.mkdir(os.path.join(folder, "build"))
        os.mkdir(os.path.join(folder, "run"), 0o700)
        made = hosts.Hosts(folder)
        try:
            made.make_pair()
            make_build(os.path.join(folder, "build"), made.flags("one", "two slots=1000"))
            environment = dict(os.environ, SUMMAND_BUILD=os.path.join(folder, "build"), SUMMAND_TEST_HOSTS=folder,
                               XDG_RUNTIME_DIR=os.path.join(folder, "run"))
            code = subprocess.run([sys.executable, *sys.argv[1:]], env=environment, check=False).returncode
            left = left_in(os.path.join(folder, "run"))
        finally:
            made.end()
    if left:
        print(f"FAILED: agents must leave nothing on their hosts, got {left}")
    return code or len(left)


if __name__ == "__main__":
    sys.exit(main())
