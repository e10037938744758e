"""A server with --tls takes workers with SUMMAND_TLS=1 and nobody else; all that crosses is encrypted."""

import os
import unittest

from programs import ProgramTest


class TlsTest(ProgramTest):
    def token(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(path, 0o600)
        return path

    def setUp(self):
        super().setUp()
        self.right = self.token("right", "open-sesame")

    def start_tls_server(self, *options, **variables):
        return self.start_server("--tls", "--token-file=" + self.right, *options, **variables)

    def rank_with(self, address, *options, rank=0, nranks=1, **variables):
        return self.start_rank(rank, nranks, [address], "--sizes=4K", "--iters=1", *options, **variables)

    def tls(self, **variables):
        return {"SUMMAND_TLS": "1", "SUMMAND_TOKEN_FILE": self.right, **variables}

    def test_sums_of_all_sizes_and_both_ways_of_progress(self):
        servers = [self.start_tls_server()[1] for _ in range(2)]
        ranks = [self.start_rank(rank, 2, servers, "--sizes=4,4K,100K,3M", "--iters=3",
                                 SUMMAND_PROGRESS=progress, SUMMAND_LOG="debug", **self.tls())
                 for rank, progress in enumerate(("poll", "thread"))]
        for rank in ranks:
            _, err = self.assert_ended(rank, 0)
            self.assertRegex(err, r"lane of 127.0.0.1:\d+: TLSv1.3, TLS_")
            for other in ("rdma", "shm"):
                self.assertIn(f"lanes do not go over {other}: it cannot encrypt", err)

    def test_another_token_is_not_let_in(self):
        server, address = self.start_tls_server()
        other = self.token("other", "open-barley")
        _, err = self.assert_ended(self.rank_with(address, **self.tls(SUMMAND_TOKEN_FILE=other)), 1,
                                   f"reduction server {address} does not let this process in: TLS: the other end has "
                                   "another token for this job, or none")
        self.assertNotIn("open-", err)
        self.terminate(server)
        self.assert_ended(server, 0, "ended: TLS: ")

    def test_each_job_has_its_own(self):
        server, address = self.start_server("--tls", "--token-file=" + self.token("jobs", "a token-a\nb token-b\n"))
        own = self.token("own", "token-a")
        self.assert_ended(self.rank_with(address, **self.tls(SUMMAND_TOKEN_FILE=own, SUMMAND_JOB_ID="a")), 0)
        for job in "bc":
            with self.subTest(job=job):
                self.assert_ended(self.rank_with(address, **self.tls(SUMMAND_TOKEN_FILE=own, SUMMAND_JOB_ID=job)), 1,
                                  "TLS: the other end has another token for this job, or none")
        self.terminate(server)
        self.assert_ended(server, 0, "ended: TLS: its token for the job is another",
                          "ended: TLS: there is no token here for the job that it names")

    def test_a_worker_without_tls_is_told_at_once(self):
        server, address = self.start_tls_server()
        self.assert_ended(self.rank_with(address, SUMMAND_TOKEN_FILE=self.right), 1,
                          "this server takes workers over TLS only: set SUMMAND_TLS=1")
        self.terminate(server)
        self.assert_ended(server, 0, "it speaks no TLS, and this end nothing else")

    def test_a_server_without_tls_is_named_at_once(self):
        server, address = self.start_server("--token-file=" + self.right)
        self.assert_ended(self.rank_with(address, **self.tls()), 1,
                          f"reduction server {address} does not let this process in: TLS: the other end does not speak "
                          "it; a reduction server does with --tls")
        self.terminate(server)
        self.assert_ended(server, 0, "it speaks TLS, and this end does not")

    def test_what_cannot_be_is_refused(self):
        _, address = self.start_tls_server()
        for variables, text in [
                ({"SUMMAND_TLS": "1"}, "SUMMAND_TLS: must come with SUMMAND_TOKEN_FILE"),
                (self.tls(SUMMAND_TLS="yes"), 'SUMMAND_TLS: must be 0 or 1, got "yes"'),
                (self.tls(SUMMAND_TRANSPORT="shm"), "SUMMAND_TRANSPORT must be able to encrypt (tcp is, where OpenSSL was at its build), got shm")]:
            with self.subTest(text):
                self.assert_ended(self.rank_with(address, **variables), 1, text)
        for options, text in [
                (["--tls"], "--tls: must come with --token-file=FILE"),
                (["--tls", "--token-file=" + self.right, "--transport=rdma"],
                 "--tls: --transport must be able to encrypt (tcp is, where OpenSSL was at its build), got rdma")]:
            with self.subTest(text):
                done = self.run_program("summand-reduction-server", "--listen=127.0.0.1:0", *options)
                self.assert_usage_error(done, text)

    def test_what_cannot_encrypt_is_left_out(self):
        server, _ = self.start_tls_server()
        self.terminate(server)
        self.assert_ended(server, 0, "no workers over rdma: it cannot encrypt, and --tls is given",
                          "no workers over shm: it cannot encrypt, and --tls is given")

    def test_a_configuration_of_openssl_has_no_say(self):
        """Not one that breaks TLS 1.3, weakens it, or leaves OpenSSL's default library without what is needed."""
        lines = {"level": "CipherString = ALL:@SECLEVEL=5", "groups": "Groups = secp521r1", "version": "MaxProtocol = TLSv1.2",
                 "ciphers": "Ciphersuites = TLS_AES_256_GCM_SHA384", "off": "Options = -TLSv1.3\nProtocol = -TLSv1.3",
                 "ephemeral": "Options = AllowNoDHEKEX", "padding": "RecordPadding = 4096"}
        paths = {name: self.configuration(name, line) for name, line in lines.items()}
        paths["providers"] = self.configuration("providers", "", "providers = base\nalg_section = fips\n[base]\nbase = on\n"
                                                "[on]\nactivate = 1\n[fips]\ndefault_properties = fips=yes\n[rest]")
        plain = self.start_tls_server()[1]
        for name, path in paths.items():
            with self.subTest(name):
                hostile = self.start_tls_server(OPENSSL_CONF=path)[1]
                for variables in {}, {"OPENSSL_CONF": path}:
                    self.assert_ended(self.rank_with(hostile, **self.tls(**variables)), 0)
                self.assert_ended(self.rank_with(plain, **self.tls(OPENSSL_CONF=path)), 0)

    def configuration(self, name, line, first=""):
        path = os.path.join(self.folder, name + ".cnf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"openssl_conf = all\n[all]\n{first}\nssl_conf = ssl\n[ssl]\nsystem_default = every\n[every]\n{line}\n")
        return path

    def test_off_is_off(self):
        _, address = self.start_server("--token-file=" + self.right)
        self.assert_ended(self.rank_with(address, **self.tls(SUMMAND_TLS="0")), 0)


if __name__ == "__main__":
    unittest.main()
