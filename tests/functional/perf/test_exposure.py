"""summand-reduction-server listens where only this machine reaches it, unless it has a token or is told otherwise."""

import os
import socket
import unittest

from programs import ProgramTest

REFUSED = ["--listen: must be a loopback address, got \"{}\"", "--token-file=FILE", "--insecure"]
WARNING = "insecure: whoever reaches"


class ExposureTest(ProgramTest):
    def server(self, *options):
        return self.run_program("summand-reduction-server", "--memory-limit=64M", *options)

    def listen(self, *options):
        """What a server that gets so far has logged by its end, and the host that it listened at."""
        process = self.start_program("summand-reduction-server", "--memory-limit=64M", *options)
        line = process.stdout.readline().split()
        self.assertEqual(line[:1], ["ready"], process.stderr.read() if not line else line)
        self.terminate(process)
        _, err = self.assert_ended(process, 0)
        return err, line[1].rpartition(":")[0]

    def token(self):
        path = self.folder + "/token"
        with open(path, "w", encoding="utf-8", opener=lambda p, flags: os.open(p, flags, 0o600)) as file:
            file.write("open-sesame\n")
        return "--token-file=" + path

    def test_loopback_is_the_default(self):
        # Somebody may have the port: that tells the address as well.
        process = self.start_program("summand-reduction-server", "--memory-limit=64M")
        line = process.stdout.readline()
        if not line:
            self.assert_ended(process, 1, "127.0.0.1:2222: cannot listen: Address already in use")
            return
        self.assertEqual(line, "ready 127.0.0.1:2222\n")
        self.terminate(process)
        _, err = self.assert_ended(process, 0)
        self.assertNotIn(WARNING, err)

    def test_elsewhere_it_does_not_start(self):
        for address in ("0.0.0.0:0", "192.0.2.1:2222", "128.0.0.1:0", "[::]:0", "[2001:db8::1]:2222",
                        "[::ffff:192.0.2.1]:0"):
            with self.subTest(address=address):
                done = self.server("--listen=" + address)
                for text in REFUSED:
                    self.assert_usage_error(done, text.format(address))

    def test_all_of_loopback_is_loopback(self):
        addresses = {"127.0.0.2:0": "127.0.0.2", "localhost:0": "127.0.0.1"}
        with socket.socket(socket.AF_INET6) as probe:
            try:
                probe.bind(("::1", 0))
                addresses |= {"[::1]:0": "[::1]", "[::ffff:127.0.0.1]:0": "[::ffff:127.0.0.1]"}
            except OSError:
                print("there is no IPv6 here")
        for address, host in addresses.items():
            with self.subTest(address=address):
                err, at = self.listen("--listen=" + address, "--insecure")
                self.assertEqual(at, host)
                self.assertNotIn(WARNING, err)

    def test_insecure_is_told_once(self):
        err, _ = self.listen("--listen=0.0.0.0:0", "--insecure")
        self.assertEqual(err.count("insecure"), 1, err)
        self.assertRegex(err, r"warn +server: insecure: whoever reaches 0\.0\.0\.0:\d+ can join jobs, .*: --token-file=")

    def test_a_token_needs_no_word(self):
        for options in ([], ["--insecure"]):
            err, _ = self.listen("--listen=0.0.0.0:0", self.token(), *options)
            self.assertNotIn("insecure", err)

    def test_a_token_that_cannot_be_read_is_no_token(self):
        done = self.server("--listen=0.0.0.0:0", "--token-file=" + self.folder + "/none")
        self.assertEqual((done.returncode, done.stdout), (1, ""))


unittest.main()
