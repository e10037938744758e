"""Reads Prometheus' text format, strictly, and the page that lists our metrics."""

import http.client
import pathlib
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"'
ESCAPES = {"\\\\": "\\", "\\n": "\n", '\\"': '"'}
UNITS = ("_bytes", "_seconds", "_bytes_total", "_seconds_total")


class Metrics:
    """What was read: samples by name, as pairs of labels and value; and each metric's type."""

    def __init__(self, text):
        self.samples, self.types, helped = {}, {}, set()
        assert text.endswith("\n"), "the last line must end"
        current = None
        for line in text[:-1].split("\n"):
            if head := re.fullmatch(rf"# HELP ({NAME}) (\S.*)", line):
                assert head[1] not in helped, f"{head[1]}: must have one HELP"
                helped.add(current := head[1])
            elif head := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge)", line):
                assert head[1] == current and head[1] not in self.types, f"TYPE must follow HELP, got {line}"
                self.types[current] = head[2]
                self.samples[current] = []
            else:
                self.add(line, current)
        for name, kind in self.types.items():
            assert (kind == "counter") == name.endswith("_total"), f"{name}: counters alone must end with _total"

    def add(self, line, current):
        sample = re.fullmatch(rf"({NAME})(?:\{{((?:{LABEL},?)+)\}})? (\S+)", line)
        assert sample, f"must be a sample, got {line!r}"
        assert sample[1] == current and current in self.types, f"must stand below its HELP and TYPE: {line}"
        labels = {name: re.sub(r'\\[\\n"]', lambda escape: ESCAPES[escape[0]], value)
                  for name, value in re.findall(LABEL, sample[2] or "")}
        assert labels not in [other for other, _ in self.samples[current]], f"must be there once: {line}"
        self.samples[current].append((labels, float(sample[5])))

    def value(self, name, **labels):
        """The sum of all samples with these labels."""
        return sum(value for own, value in self.samples[name] if labels.items() <= own.items())


def request(address, method="GET", path="/metrics", **headers):
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=120)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def read(address):
    status, text, headers = request(address)
    assert status == 200, f"{status}: {text}"
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4"), headers
    return Metrics(text)


def of_page(source, heading):
    """Metrics that the page lists under the heading: name to type."""
    page = pathlib.Path(source, "specs/guide/metrics.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL)[1]
    return dict(re.findall(rf"^\| `({NAME})` \| (counter|gauge) \|", section, flags=re.MULTILINE))
