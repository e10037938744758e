"""A server with a token lets in the workers that have it, and tells the others why not."""

import os
import unittest

from programs import ProgramTest


class TokenTest(ProgramTest):
    def write(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        return path

    def start_guarded_server(self):
        return self.start_server("--token-file=" + self.write("server", "open sesame\n"))

    def rank_with(self, address, **variables):
        return self.start_rank(0, 1, [address], "--sizes=4K", "--iters=1", **variables)

    def test_the_token_lets_in(self):
        _, address = self.start_guarded_server()
        # With or without the line's end: it is the same token.
        for content in ("open sesame", "open sesame\n", "open sesame\r\n"):
            self.assert_ended(self.rank_with(address, SUMMAND_TOKEN_FILE=self.write("worker", content)), 0)

    def test_another_token_is_refused(self):
        server, address = self.start_guarded_server()
        text = "rank-0: the job's token is not this server's"
        for variables in [{"SUMMAND_TOKEN_FILE": self.write("worker", "open barley")}, {}]:
            _, err = self.assert_ended(self.rank_with(address, **variables), 1,
                                       f"reduction server {address} refuses this process: {text}")
            self.assertNotIn("sesame", err)
        self.terminate(server)
        self.assert_ended(server, 0, "refused 127.0.0.1:", text)

    def test_a_server_without_token_lets_all_in(self):
        _, address = self.start_server()
        self.assert_ended(self.rank_with(address, SUMMAND_TOKEN_FILE=self.write("worker", "any")), 0)

    def test_token_files_that_cannot_be_used_by_a_server(self):
        for path, code, text in [
                (os.path.join(self.folder, "none"), 1, "No such file or directory"),
                (self.write("empty", ""), 2, "must hold 1 to 255 characters"),
                (self.write("newline", "\n"), 2, "must hold 1 to 255 characters"),
                (self.write("long", 256 * "x"), 2, "must hold 1 to 255 characters")]:
            done = self.run_program("summand-reduction-server", "--listen=127.0.0.1:0", "--memory-limit=64M",
                                    "--token-file=" + path)
            self.assertEqual((done.returncode, done.stdout), (code, ""), done)
            self.assertIn(text, done.stderr)
            self.assertIn("--token-file: ", done.stderr)

    def test_token_files_that_cannot_be_used_by_a_worker(self):
        _, address = self.start_server()
        for path, text in [(os.path.join(self.folder, "none"), "cannot read"),
                           (self.write("empty", ""), "must hold 1 to 255 characters"),
                           (self.write("long", 256 * "x"), "must hold 1 to 255 characters"),
                           (self.write("control", "a\tb"), "must have no control characters")]:
            self.assert_ended(self.rank_with(address, SUMMAND_TOKEN_FILE=path), 1, "SUMMAND_TOKEN_FILE: ", text)


unittest.main()
