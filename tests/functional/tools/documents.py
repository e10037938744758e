"""What README.md and the pages under specs name is there: files, functions, messages, tests, pages and headings."""

import glob
import os
import pathlib
import re
import subprocess
import unittest

SOURCE = os.environ["SUMMAND_SOURCE"]
ROOMS = "orchestrator|reduction_server|worker|specs|tests|tools|\\.ci"
ENDINGS = ("md", "c", "h")  # `rdma.md` is no test
# C files by name alone that are not the project's: placeholders, CUDA's, the driver's.
FOREIGN = {"NAME.c", "TARGET.c", "cuda.h", "nv-dmabuf.c"}


def files():
    """Of the project: those that git has, or all of them where there is no git."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=SOURCE,
                            capture_output=True, text=True)
    return listed.stdout.split("\0") if listed.returncode == 0 else \
        [str(path.relative_to(SOURCE)) for path in pathlib.Path(SOURCE).rglob("*") if path.is_file()]


def pages():
    found = ["README.md", *glob.glob("specs/**/*.md", root_dir=SOURCE, recursive=True)]
    return {page: pathlib.Path(SOURCE, page).read_text(encoding="utf-8") for page in found}


def without_code(text):
    return re.sub(r"^( *)```.*?^\1```|^    .*?$", "", text, flags=re.DOTALL | re.MULTILINE)


def sources():
    """All of the programs' C, with the parts of each string joined."""
    paths = [path for room in ("orchestrator", "reduction_server", "worker")
             for path in sorted(pathlib.Path(SOURCE, room).rglob("*.[ch]"))]
    return re.sub(r'"\s*"', "", "\n".join(path.read_text(encoding="utf-8") for path in paths))


def fixed_parts(message):
    """What of a message is the same every time: without words that have digits, and names in brackets."""
    parts = [part.strip(" ,.") for part in re.split(r"\S*\d\S*|\([^)]*\)?|\.\.\.|[:%]", message)]
    systems = {os.strerror(number) for number in range(1, 134)}
    return [part for part in parts if len(part) >= 8 and part not in systems]


def anchors(text):
    """The names that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ +(.*?) *$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Documents(unittest.TestCase):
    def setUp(self):
        self.pages = pages()

    def each(self, pattern):
        for page, text in self.pages.items():
            for found in re.finditer(pattern, text):
                yield page, found[1]

    def test_pages_say_what_the_reader_can_do(self):
        """In their first sentence, after the heading; README.md begins with what the project is."""
        for page, text in self.pages.items():
            if page != "README.md":
                with self.subTest(page=page):
                    self.assertRegex(text, r"\A# [^\n]+\n\nAfter this page (you|your|an) ")

    def test_files_are_there(self):
        """Words in backquotes that begin like a path of the project; what follows a *, : or { is not looked at."""
        for page, path in self.each(f"`(CMakeLists\\.txt|(?:{ROOMS})/[^` ]*)`"):
            with self.subTest(page=page, path=path):
                self.assertTrue(os.path.exists(os.path.join(SOURCE, re.split("[:*{]", path)[0])))

    def test_c_files_are_there(self):
        """`watch.c` and `tcp/watch.c`: those that are no path from the top, by how the path ends."""
        paths = ["/" + path for path in files()]
        named = [(page, name) for page, name in self.each(r"`((?:[a-z0-9_]+/)?[A-Za-z0-9_-]+\.[ch])`")
                 if name not in FOREIGN]
        self.assertGreater(len(named), 50)
        for page, name in named:
            with self.subTest(page=page, name=name):
                self.assertTrue(any(path.endswith("/" + name) for path in paths))

    def test_functions_are_in_their_files(self):
        """`FILE`: `function()`, and `function()` in `FILE`."""
        path, function = f"`((?:{ROOMS})/[^` ]*)`", "`(\\w+)\\(\\)`"
        named = []
        for page, text in self.pages.items():
            named += [(page, *found) for found in re.findall(f"{path}: {function}", text)]
            named += [(page, found[1], found[0]) for found in re.findall(f"{function} in\\s+{path}", text)]
        self.assertTrue(named)
        for page, path, name in named:
            with self.subTest(page=page, path=path, name=name):
                self.assertRegex(pathlib.Path(SOURCE, path).read_text(encoding="utf-8"), f"\\b{name}\\(")

    def test_messages_are_the_programs_own(self):
        """Those in the first column of the page that tells what to do about them."""
        messages = re.findall(r"^\| `([^`]+)`", self.pages["specs/guide/troubleshooting.md"], flags=re.MULTILINE)
        self.assertGreater(len(messages), 20)
        text = sources()
        for message in messages:
            for part in fixed_parts(message):
                with self.subTest(message=message, part=part):
                    self.assertTrue(part in text)

    def test_settings_are_all_told(self):
        table = pathlib.Path(SOURCE, "orchestrator/frontend/setting.c").read_text(encoding="utf-8")
        names = set(re.findall(r'^\t\{"([a-z-]+)", ', table, flags=re.MULTILINE))
        told = re.findall(r"`summand-([a-z-]+)`", self.pages["specs/guide/job-files.md"])
        self.assertIn("distribution", names)
        self.assertEqual(names - set(told), set())

    def test_pages_are_there(self):
        """Pages by their names alone, and by their paths from the page that names them."""
        for page, path in self.each(r"`(\.\.?/[^`#]*)[^`]*`"):
            with self.subTest(page=page, path=path):
                self.assertTrue(os.path.exists(os.path.join(SOURCE, os.path.dirname(page), path)))
        names = {os.path.basename(page) for page in self.pages}
        for page, name in self.each(r"`([a-z0-9_-]+\.md)`"):
            with self.subTest(page=page, name=name):
                self.assertIn(name, names)

    def test_tests_are_there(self):
        """tests/CMakeLists.txt has written down the names of all tests."""
        with open(os.path.join(os.environ["SUMMAND_BUILD"], "tests", "names"), encoding="ascii") as file:
            names = file.read().split()
        kinds = "|".join(sorted({name.partition(".")[0] for name in names}))
        named = [(page, name) for page, name in self.each(f"`((?:{kinds})\\.[a-z0-9_]+)`")
                 if name.partition(".")[2] not in ENDINGS]
        self.assertTrue(named)
        for page, name in named:
            with self.subTest(page=page, name=name):
                self.assertTrue(name in names, f"no test is called {name}")

    def test_links_lead_somewhere(self):
        for page, text in self.pages.items():
            for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
                if re.match("[a-z]+:", target):
                    continue
                with self.subTest(page=page, target=target):
                    path, _, anchor = target.partition("#")
                    path = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
                    self.assertTrue(os.path.exists(os.path.join(SOURCE, path)))
                    if anchor:
                        self.assertIn(anchor, anchors(self.pages[path]))


if __name__ == "__main__":
    unittest.main()
