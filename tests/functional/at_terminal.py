"""A program as somebody at a terminal has it."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time

LONG = 120  # seconds: nothing takes that long unless it hangs


class Terminal:
    def __init__(self, command, **variables):
        self.said = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(command[0], command, {**os.environ, **variables, "TERM": "xterm-256color"})

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys):
        os.write(self.fd, keys)

    def read(self):
        ready, _, _ = select.select([self.fd], [], [], 0.1)
        try:
            self.said += os.read(self.fd, 65536) if ready else b""
        except OSError:
            return  # it has ended

    def wait_for(self, pattern):
        """What has been said up to there is forgotten."""
        deadline = time.monotonic() + LONG
        while not (found := re.search(pattern, self.said)):
            assert time.monotonic() < deadline, self.said
            self.read()
        self.said = self.said[found.end():]
        return found

    def wait(self):
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
            self.read()
