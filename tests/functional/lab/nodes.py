"""Where the tools are, and whether nodes can be made here."""

import os
import subprocess
import sys

TOOLS = os.path.join(os.environ["SUMMAND_SOURCE"], "tools")
NETLAB = os.path.join(TOOLS, "netlab")
BENCH = os.path.join(TOOLS, "bench-allreduce")
UNABLE = 77
LONG = 60   # seconds: nothing here takes that long unless it hangs


def require():
    """Ends the test as skipped where nodes cannot be made."""
    done = subprocess.run([NETLAB, "--nodes=2", "--rate=1gbit", "--", "true"], capture_output=True, text=True,
                          timeout=LONG, check=False)
    if done.returncode == UNABLE:
        print(f"skipped: {done.stderr.strip()}")
        sys.exit(UNABLE)
