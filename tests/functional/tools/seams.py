"""What is written once is written once: an element type, an option of the reduction server, a hash, a byte order.

Counted in the files that git has, or in all of them where there is no git.
"""

import ast
import os
import re
import subprocess
import sys

TYPES = "reduction_server/base/include/summand_types.h"
KERNELS = "reduction_server/kernels/"
PAGE_OF_TYPES = "specs/design/numerics.md"  # how each type rounds
MAIN = "reduction_server/main.c"
MAN = "reduction_server/summand-reduction-server.1"

# What the product must have in one place, and the place.
ONCE = [
    (r"0x100000001b3", "reduction_server/base/hash.h"),
    (r"0xbf58476d1ce4e5b9", "reduction_server/base/random.h"),
    (r"\bhtole(16|32)\b", "reduction_server/base/bytes.h"),
    (r"\b10{9}u?l*\b", "reduction_server/base/clock.h"),
]

failures = 0


def must(holds, text):
    global failures
    if not holds:
        failures += 1
        print(f"FAILED: {text}")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def files():
    """Of the product: its tests may name what they test."""
    tops = ["CMakeLists.txt", "orchestrator", "reduction_server", "worker", "tools", "specs"]
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *tops], capture_output=True, text=True)
    paths = listed.stdout.split("\0") if listed.returncode == 0 else \
        [os.path.join(folder, name) for top in tops for folder, _, names in os.walk(top) for name in names]
    return [path for path in paths if os.path.isfile(path)]


def rows(text, table):
    """The arguments of each X(...) in a table of summand_types.h."""
    body = re.search(rf"#define {table}\(X\)((?:.*\\\n)*.*\n)", text)[1]
    return [[word.strip() for word in row.split(",")] for row in re.findall(r"X\((SMD_[^)]*)\)", body)]


def naming(words, texts):
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, words)) + r")\b")
    return sorted(path for path, text in texts.items() if pattern.search(text))


def check_types(texts):
    types = rows(texts[TYPES], "SMD_DTYPES")
    must(len(types) >= 12 and len(rows(texts[TYPES], "SMD_OPS")) >= 5, f"{TYPES} must have rows, got {types}")
    constant, _, name, kernel = types[-1][:4]
    for path in naming({constant, name.strip('"'), kernel}, texts):
        must(path in (TYPES, PAGE_OF_TYPES) or path.startswith(KERNELS),
             f"{constant} must be named in its row, its kernels and its tests alone, got {path}")


def check_python(texts):
    """The binding has no C: its numbers are compared here."""
    numbers = {row[2].strip('"'): int(row[1]) for table in ("SMD_DTYPES", "SMD_OPS") for row in rows(texts[TYPES], table)}
    path = "worker/python/summand_ddp.py"
    compared = 0
    for node in ast.parse(texts[path]).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("DTYPES", "OPS"):
            for key, value in zip(node.value.keys, node.value.values):
                name = key.attr if isinstance(key, ast.Attribute) else key.value
                compared += 1
                must(numbers.get(name) == value.value, f"{path}: {name} must be {numbers.get(name)}, got {value.value}")
    must(compared >= 13, f"{path} must have the tables DTYPES and OPS, got {compared} entries")


def check_options(texts):
    """A server's option: its row and its use in main.c, its paragraph in the page. --help is made from the row, and
    functional.pages compares it with the page."""
    options = re.findall(r'^\t\t\{"([a-z-]+)",', texts[MAIN], re.M)
    must(len(options) >= 9, f"{MAIN} must have a table of options, got {options}")
    for option in options:
        must(len(re.findall(rf'"{option}"', texts[MAIN])) == 1, f"--{option} must have one row in {MAIN}")
        page = re.sub(r"\\f[BIRP]", "", texts[MAN]).replace("\\-", "-")
        paragraphs = re.findall(rf"^--{option}(?:=.*)?$", page, re.M)
        must(len(paragraphs) == 1, f"--{option} must have one paragraph in {MAN}, got {len(paragraphs)}")


def check_once(texts):
    for pattern, place in ONCE:
        found = [path for path, text in texts.items() if path.endswith((".c", ".h", ".inc")) and re.search(pattern, text)]
        must(found == [place], f"{pattern} must be in {place} alone, got {' '.join(found)}")


def main():
    os.chdir(os.environ["SUMMAND_SOURCE"])
    texts = {path: read(path) for path in files()}
    check_types(texts)
    check_python(texts)
    check_options(texts)
    check_once(texts)
    return 1 if failures else 0


sys.exit(main())
