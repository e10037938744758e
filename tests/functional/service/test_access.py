"""Who may ask a service, and what a stranger's requests can cost it."""

import http.client
import json
import os
import re
import resource
import socket
import ssl
import stat
import subprocess
import time
import unittest

from served import JOBS, LONG, SUMMAND, ServiceTest, job


class Access(ServiceTest):
    def refuses_to_start(self, *flags):
        run = subprocess.run([SUMMAND, "serve", *flags], env=self.env, capture_output=True, text=True, timeout=LONG, check=False)
        self.assertIn(run.returncode, (1, 2), run.stderr)
        return run.stderr

    def write(self, name, text, mode=0o600):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def status(self, data):
        answer = self.raw(data)
        return int(answer.split()[1]) if answer.startswith(b"HTTP/") else None

    def test_another_address_than_loopback_needs_a_secret(self):
        for listen in ("0.0.0.0:0", "[::]:0"):
            self.assertIn("--token-file", self.refuses_to_start(f"--listen={listen}"))
        self.refuses_to_start("--listen=nonsense")
        self.refuses_to_start("--tls-cert=/nowhere")
        self.assertEqual(self.refuses_to_start("--webhook=ftp://x").count("got"), 1)
        self.assertRegex(self.refuses_to_start("--images=/nowhere"), "--images=/nowhere: unable to open")
        lines = self.refuses_to_start("--listen=0.0.0.0:0", "--tls-client-ca=/nowhere", "--token-file=/nowhere").splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("--tls-cert, --tls-key", lines[0])
        self.refuses_to_start("--token-file=/nowhere")
        self.assertIn("must", self.refuses_to_start("--token-file=" + self.write("loose", "secret", 0o644)))
        self.serve("--listen=0.0.0.0:0", "--token-file=" + self.write("token", "sesame\n"))
        self.service.host = "127.0.0.1"
        self.fails("GET", JOBS, None, 401, "UNAUTHENTICATED")
        self.ask("GET", JOBS, headers={"Authorization": "Bearer sesame"})

    def test_a_token_is_needed_where_there_is_one(self):
        self.serve("--token-file=" + self.write("token", "sesame\n"))
        for words in ({}, {"Authorization": "Bearer sesam"}, {"Authorization": "Bearer sesame1"}, {"Authorization": "sesame"},
                      {"Authorization": "Bearer "}, {"Authorization": "Basic c2VzYW1l"}):
            self.fails("GET", JOBS, None, 401, "UNAUTHENTICATED", words)
            self.assertEqual(self.answer.getheader("WWW-Authenticate"), "Bearer")
        self.assertEqual(self.ask("GET", JOBS, headers={"Authorization": "Bearer sesame"}), {"customJobs": []})
        self.assertNotIn("sesame", self.service.said())

    def test_the_page_needs_no_token_and_may_load_nothing_from_elsewhere(self):
        self.serve("--token-file=" + self.write("token", "sesame\n"))
        for target, kind in (("/", "text/html"), ("/?x=1", "text/html"), ("/page.css", "text/css"), ("/main.js", "text/javascript"),
                             ("/icon.svg", "image/svg+xml")):
            connection = self.connect()
            connection.request("GET", target)
            answer = connection.getresponse()
            text = answer.read()
            connection.close()
            self.assertEqual((answer.status, answer.getheader("Content-Type").split(";")[0]), (200, kind), target)
            self.assertEqual(int(answer.getheader("Content-Length")), len(text))
            policy = answer.getheader("Content-Security-Policy")
            for rule in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"):
                self.assertIn(rule, policy)
            self.assertNotIn("unsafe", policy)
            self.assertEqual(answer.getheader("X-Content-Type-Options"), "nosniff")
            self.assertNotIn(b"sesame", text)
        for target in ("/page.css/", "/index.html", "/../page.css", "/page/main.js", "/%2e%2e/main.js", "//main.js"):
            self.assertIn(self.status(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()), (400, 401, 404), target)
        self.fails("POST", "/", {}, 401, "UNAUTHENTICATED")
        self.assertEqual(self.status(b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"), 421)
        self.assertEqual(self.status(b"GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nConnection: close\r\n\r\n"), 403)

    def test_other_names_and_other_pages_are_refused(self):
        self.serve("--host=jobs.example", *self.FLAGS)
        port = self.service.port
        for host in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "127.0.0.1.evil.example", ""):
            error = self.ask("GET", JOBS, status=421 if host else 400, headers={"Host": host})["error"]
            self.assertIn("Host", error["message"])
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", "localhost", f"[::1]:{port}", "jobs.example", "JOBS.example:80"):
            self.ask("GET", JOBS, headers={"Host": host})
        own = {"Host": f"127.0.0.1:{port}", "Origin": f"http://127.0.0.1:{port}"}
        self.ask("GET", JOBS, headers=own)
        for origin in ("http://evil.example", "null", f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port}.evil.example", ""):
            self.fails("GET", JOBS, None, 403, "PERMISSION_DENIED", {**own, "Origin": origin})
            self.fails("POST", JOBS, job(), 403, "PERMISSION_DENIED", {**own, "Origin": origin})
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "TEXT/PLAIN;charset=utf-8", "application/jsonx", ""):
            self.ask("POST", JOBS, job(), 415, {"Content-Type": kind})
        body = json.dumps(job())    # without any type, as a page may send it, too
        answer = self.raw(f"POST {JOBS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())
        self.assertRegex(answer, rb"^HTTP/1\.1 415 ")
        self.assertEqual(self.ask("GET", JOBS), {"customJobs": []})

    def test_paths_stay_paths(self):
        self.serve()
        secret = self.write("secret", "not for you")
        for path in ("/../../../etc/passwd", "/v1/../../etc/passwd", "/v1/projects/../locations/x/customJobs",
                     "/v1/projects/%2e%2e/locations/x/customJobs", "/v1/projects/a%2F..%2Fb/locations/x/customJobs",
                     f"/v1/projects/demo/locations/x/customJobs/..%2f..%2f{secret}", f"{JOBS}/%2Fetc%2Fpasswd", f"{JOBS}//1",
                     f"{JOBS}/", f"{JOBS}/1%00", f"{JOBS}/%zz", f"{JOBS}/1%0d%0aX-Evil:%201", "/v1/projects/a b/locations/x/customJobs",
                     f"{JOBS}/-1", f"{JOBS}/99999999999999999999999", f"{JOBS}/1:cancel:cancel", f"{JOBS}/1/2/3/4/5/6/7/8/9/10/11"):
            answer = self.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            status = int(answer.split()[1]) if answer else 400  # what is no request at all has no answer
            self.assertIn(status, (400, 404, 405), (path, answer))
            self.assertNotIn(b"not for you", answer)
            self.assertNotIn(b"X-Evil", answer.split(b"\r\n\r\n")[0])

    def test_what_can_be_read_in_two_ways_is_refused(self):
        self.serve()
        body = json.dumps(job()).encode()
        head = f"POST {JOBS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
        for more in (b"Host: evil.example\r\nContent-Length: %d\r\n" % len(body), b"Content-Length: 0\r\nContent-Length: %d\r\n" % len(body),
                     b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % len(body), b"Content-Length: -1\r\n", b"Content-Length: 1x\r\n"):
            answer = self.raw(head + more + b"\r\n" + body)
            self.assertNotIn(b" 200 ", answer.split(b"\r\n")[0], more)
        other = f"GET {JOBS} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()   # as a body, it is no request
        length = b"%d" % len(other)
        for method in (f"POST {JOBS}/1:cancel", f"GET {JOBS}"):
            first = f"{method} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
            for more in (b"Content-Length : " + length, b"Content-Length:\r\n " + length, b"X: a\r\n\tContent-Length: " + length,
                         b"X: a\rContent-Length: " + length, b"Transfer-Encoding : chunked", b"Transfer-Encoding:\r\n chunked",
                         b"Transfer-Encoding: xchunked", b"Transfer-Encoding: gzip, chunked"):
                begun = time.monotonic()
                answer = self.raw(first + more + b"\r\n\r\n" + other)
                self.assertRegex(answer, rb"^HTTP/1\.1 400 ", more)
                self.assertEqual(len(re.findall(rb"HTTP/1\.1 \d\d\d", answer)), 1, (more, answer))
                self.assertLess(time.monotonic() - begun, 30, "it waits for nothing")
        answer = self.raw(f"POST {JOBS}/1:cancel HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() + other)     # no length at all
        self.assertRegex(answer, rb"^HTTP/1\.1 400 ")
        self.assertEqual(len(re.findall(rb"HTTP/1\.1 \d\d\d", answer)), 1, answer)
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"GET\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
            self.assertNotIn(b" 200 ", self.raw(data).split(b"\r\n")[0], data)
        for data in (b"\0\0\0\0\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", head, b"POST"):  # for the rest of them it would wait
            with socket.create_connection((self.service.host, self.service.port), timeout=LONG) as connection:
                connection.sendall(data)
        self.assertEqual(self.status(b"PUT /v1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), 405)
        self.assertEqual(self.status(f"DELETE {JOBS} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()), 405)
        self.assertEqual(self.ask("GET", JOBS), {"customJobs": []})

    def test_requests_are_bounded(self):
        self.serve()
        huge = 64 << 20
        answer = self.raw(f"POST {JOBS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {huge}\r\n\r\n".encode())
        self.assertEqual(int(answer.split()[1]), 413, answer)
        connection = self.connect()
        try:  # nobody says how long it is
            connection.request("POST", JOBS, (b"x" * 65536 for _ in range(huge // 65536)), encode_chunked=True,
                               headers={"Transfer-Encoding": "chunked", "Content-Type": "application/json"})
            self.assertEqual(connection.getresponse().status, 413)
        except (BrokenPipeError, ConnectionResetError):
            pass
        connection.close()
        self.assertNotEqual(self.status(b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200)
        self.assertNotEqual(self.status(b"GET /v1 HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 200000 + b"\r\n\r\n"), 200)
        self.fails("POST", JOBS, "[" * 100000, 400, "INVALID_ARGUMENT")
        self.fails("GET", f"{JOBS}?filter={'(' * 5000}", None, 400, "INVALID_ARGUMENT")
        self.fails("GET", f"{JOBS}?filter={'-' * 5000}", None, 400, "INVALID_ARGUMENT")
        self.fails("GET", f"{JOBS}?{'&'.join(f'a{i}=1' for i in range(100))}", None, 400, "INVALID_ARGUMENT")
        idle = [socket.create_connection((self.service.host, self.service.port), timeout=LONG) for _ in range(300)]
        self.assertEqual(self.ask("GET", JOBS), {"customJobs": []})
        for one in idle:
            one.close()

    def test_strangers_leave_room_for_who_has_the_token(self):
        self.serve("--token-file=" + self.write("token", "sesame\n"))
        count = 2200    # more than all connections of a service
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most != resource.RLIM_INFINITY and most < count + 100:
            self.skipTest(f"a process may have {most} files here")
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        strangers = []
        for i in range(count):
            one = socket.create_connection((self.service.host, self.service.port), timeout=LONG)
            one.sendall((b"GET / HTTP/1.1\r\nHost: 12", b"", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")[i % 3])
            strangers.append(one)
        connection = http.client.HTTPConnection(self.service.host, self.service.port, timeout=20)
        connection.request("GET", JOBS, headers={"Authorization": "Bearer sesame"})
        self.assertEqual(connection.getresponse().status, 200)
        strangers += [socket.create_connection((self.service.host, self.service.port), timeout=LONG) for _ in range(600)]
        connection.request("GET", JOBS, headers={"Authorization": "Bearer sesame"})  # on a connection that is older than all of them
        self.assertEqual(connection.sock.recv(12), b"HTTP/1.1 200")
        connection.close()
        for one in strangers:
            one.close()

    def certificates(self):
        """An authority, a server's certificate and a client's, and one of a stranger's."""
        def openssl(*words):
            subprocess.run(["openssl", *words], cwd=self.dir, check=True, capture_output=True, timeout=LONG)
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        for name in ("ca", "other"):
            openssl("req", "-x509", *curve, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}", "-days", "2")
        for name, authority in (("server", "ca"), ("client", "ca"), ("stranger", "other")):
            openssl("req", *curve, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
            openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-out",
                    f"{name}.pem", "-days", "2", "-copy_extensions", "copy")
        return {name: os.path.join(self.dir, name) for name in ("ca", "server", "client", "stranger")}

    def test_certificates_of_clients(self):
        try:
            subprocess.run(["openssl", "version"], check=True, capture_output=True, timeout=LONG)
        except FileNotFoundError:
            self.skipTest("there is no openssl here")
        paths = self.certificates()
        self.refuses_to_start("--listen=127.0.0.1:0", f"--tls-cert={paths['server']}.pem")
        self.refuses_to_start("--listen=127.0.0.1:0", f"--tls-cert={paths['server']}.pem", f"--tls-key={paths['client']}.key")
        self.serve("--listen=127.0.0.1:0", f"--tls-cert={paths['server']}.pem", f"--tls-key={paths['server']}.key",
                   f"--tls-client-ca={paths['ca']}.pem")
        self.assertTrue(self.service.url.startswith("https://"), self.service.url)

        def ask(name):
            context = ssl.create_default_context(cafile=paths["ca"] + ".pem")
            if name:
                context.load_cert_chain(paths[name] + ".pem", paths[name] + ".key")
            connection = http.client.HTTPSConnection("127.0.0.1", self.service.port, timeout=LONG, context=context)
            try:
                connection.request("GET", JOBS)
                return connection.getresponse().status
            except (ssl.SSLError, ConnectionError, http.client.HTTPException):
                return None
            finally:
                connection.close()

        self.assertEqual(ask("client"), 200)
        self.assertIn(ask(None), (401, None))
        self.assertIn(ask("stranger"), (401, None))
        self.assertNotIn(b" 200 ", self.raw(b"GET /v1 HTTP/1.1\r\nHost: localhost\r\n\r\n"))

    def test_the_files_are_the_owners_alone(self):
        self.serve()
        self.create("true")
        for folder, _, names in os.walk(self.state):
            for name in names:
                mode = os.lstat(os.path.join(folder, name)).st_mode
                self.assertFalse(stat.S_IMODE(mode) & 0o077, os.path.join(folder, name))


if __name__ == "__main__":
    unittest.main()
