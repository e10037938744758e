"""A server with a token lets in the workers that have it, and tells the others why not."""

import os
import subprocess
import unittest

from programs import BIN, ProgramTest


class TokenTest(ProgramTest):
    def write(self, name, content, mode=0o600):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(path, mode)
        return path

    def start_guarded_server(self):
        return self.start_server("--token-file=" + self.write("server", "open-sesame\n"))

    def rank_with(self, address, **variables):
        return self.start_rank(0, 1, [address], "--sizes=4K", "--iters=1", **variables)

    def test_the_token_lets_in(self):
        _, address = self.start_guarded_server()
        # With or without the line's end: it is the same token.
        for content in ("open-sesame", "open-sesame\n", "open-sesame\r\n"):
            self.assert_ended(self.rank_with(address, SUMMAND_TOKEN_FILE=self.write("worker", content)), 0)

    def test_another_token_is_refused(self):
        server, address = self.start_guarded_server()
        text = "rank-0: the job's token is not this server's"
        none = "rank-0: only who has the job's token is let in: SUMMAND_TOKEN_FILE must name the file that holds it"
        for variables, text in [({"SUMMAND_TOKEN_FILE": self.write("worker", "open-barley")}, text), ({}, none)]:
            _, err = self.assert_ended(self.rank_with(address, **variables), 1,
                                       f"reduction server {address} refuses this process: {text}")
            self.assertNotIn("sesame", err)
        self.terminate(server)
        self.assert_ended(server, 0, "refused 127.0.0.1:", text, none)

    def test_a_server_without_token_is_not_the_jobs(self):
        """It may be anybody's, who has taken the address of the job's."""
        _, address = self.start_server()
        self.assert_ended(self.rank_with(address, SUMMAND_TOKEN_FILE=self.write("worker", "any")), 1,
                          f"reduction server {address} is not believed: it does not show that it has the job's token",
                          "give it the same by --token-file, or unset the variable")
        self.assert_ended(self.rank_with(address), 0)

    def test_a_token_for_each_job(self):
        table = "# who may come\n\nalpha alphas-token\nthe second job\tseconds-token\r\n"
        _, address = self.start_server("--token-file=" + self.write("server", table))
        for job, token, lets_in in [("alpha", "alphas-token", True), ("the second job", "seconds-token", True),
                                    ("alpha", "seconds-token", False), ("the second job", "alphas-token", False),
                                    ("nobody's", "alphas-token", False), ("", "alphas-token", False)]:
            with self.subTest(job=job, token=token):
                rank = self.rank_with(address, SUMMAND_JOB_ID=job, SUMMAND_TOKEN_FILE=self.write("worker", token))
                self.assert_ended(rank, 0 if lets_in else 1, "" if lets_in else "token is not this server's")

    def test_token_files_that_cannot_be_used_by_a_server(self):
        for path, code, text in [
                (os.path.join(self.folder, "none"), 1, "No such file or directory"),
                (self.write("empty", ""), 2, "must hold 1 to 255 characters"),
                (self.write("newline", "\n"), 2, "must hold 1 to 255 characters"),
                (self.write("comment", "# none\n"), 2, "must hold 1 to 255 characters"),
                (self.write("two", "one\ntwo\n"), 2, "must hold one token, for every job, or a line"),
                (self.write("twice", "a one\na two\n"), 2, 'a job that no line before it names, got "a"'),
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
                           (self.write("control", "a\x01b"), "must have no control characters"),
                           (self.write("words", "open sesame"), "only servers know more than one job")]:
            self.assert_ended(self.rank_with(address, SUMMAND_TOKEN_FILE=path), 1, "SUMMAND_TOKEN_FILE: ", text)

    def test_a_file_that_others_may_read_is_refused(self):
        """Or its group may write; that its group may read is how Kubernetes and systemd hand it over."""
        _, address = self.start_server()
        for mode in (0o644, 0o604, 0o602, 0o601, 0o660, 0o620):
            path = self.write("open", "open-sesame", mode)
            text = f"{path} must be for its owner alone to write and for nobody else but its group to read, " \
                   f"got mode {mode:04o}: chmod 600 {path}"
            with self.subTest(mode=oct(mode)):
                done = self.run_program("summand-reduction-server", "--listen=127.0.0.1:0", "--token-file=" + path)
                self.assertEqual((done.returncode, done.stdout), (1, ""), done)
                self.assertIn("--token-file: " + text, done.stderr)
                self.assertNotIn("sesame", done.stderr)
                _, err = self.assert_ended(self.rank_with(address, SUMMAND_TOKEN_FILE=path), 1,
                                           "SUMMAND_TOKEN_FILE: " + text)
                self.assertNotIn("sesame", err)

    def test_a_file_for_its_group_is_taken(self):
        for mode in (0o600, 0o400, 0o440, 0o640):
            _, address = self.start_server("--token-file=" + self.write(f"server{mode}", "open-sesame", mode))
            path = self.write(f"worker{mode}", "open-sesame", mode)
            self.assert_ended(self.rank_with(address, SUMMAND_TOKEN_FILE=path), 0)

    def test_a_link_counts_as_its_file(self):
        link = os.path.join(self.folder, "link")
        os.symlink(self.write("real", "open-sesame"), link)
        _, address = self.start_server("--token-file=" + link)
        self.assert_ended(self.rank_with(address, SUMMAND_TOKEN_FILE=link), 0)

    def inherited(self, kind):
        """A descriptor from which the token comes, as a launcher hands it on."""
        if kind == "pipe":
            reading, writing = os.pipe()
        else:
            reading = writing = os.memfd_create("token")
        os.write(writing, b"open-sesame\n")
        if kind == "pipe":
            os.close(writing)
        else:
            os.lseek(reading, 0, os.SEEK_SET)
        os.set_inheritable(reading, True)
        self.addCleanup(os.close, reading)
        return reading

    def run_inheriting(self, program, descriptor, *arguments, **variables):
        process = subprocess.Popen([os.path.join(BIN, program), *arguments], env=self.environment(**variables),
                                   pass_fds=[descriptor], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        return process

    def test_an_inherited_descriptor(self):
        for kind in ("pipe", "memory"):
            for folder in ("/dev/fd", "/proc/self/fd"):
                with self.subTest(kind=kind, folder=folder):
                    ours = self.inherited(kind)
                    server = self.run_inheriting("summand-reduction-server", ours, "--listen=127.0.0.1:0",
                                                 "--memory-limit=64M", f"--token-file={folder}/{ours}")
                    address = server.stdout.readline().split()[1]
                    ours = self.inherited(kind)
                    rank = self.run_inheriting("summand-perf", ours, "allreduce", "--group=test", "--nranks=1",
                                               "--rank=0", "--servers=" + address, "--sizes=4K", "--iters=1",
                                               SUMMAND_TOKEN_FILE=f"{folder}/{ours}")
                    self.assert_ended(rank, 0)
                    self.assert_ended(self.rank_with(address), 1, "token")

    def test_a_named_pipe(self):
        path = os.path.join(self.folder, "pipe")
        os.mkfifo(path, 0o600)
        server = self.start_program("summand-reduction-server", "--listen=127.0.0.1:0", "--memory-limit=64M",
                                    "--token-file=" + path)
        with open(path, "w", encoding="ascii") as pipe:
            pipe.write("open-sesame\n")
        address = server.stdout.readline().split()[1]
        self.assert_ended(self.rank_with(address, SUMMAND_TOKEN_FILE=self.write("worker", "open-sesame")), 0)
        self.assert_ended(self.rank_with(address), 1, "token")


unittest.main()
