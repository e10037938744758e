"""What is written once is written once: an element type, an option of the reduction server, a hash, a byte order, a tag.

Counted in the files that git has, or in all of them where there is no git.
"""

import ast
import os
import re
import subprocess
import sys

TYPES = "reduction_server/base/include/summand_types.h"
KERNELS = "reduction_server/kernels/"
BINDING = "worker/python/summand/ddp.py"
C_WORDS = {"float", "double"}  # kernels are called so, and much else

# What may name every type: a new one is looked for, and mostly added, here.
KNOW_TYPES = [
    TYPES,
    "specs/design/numerics.md",  # how each rounds
    BINDING, "specs/guide/pytorch.md",  # those that torch has too
    "tools/gpu/findings",  # those whose sums are exact
    "worker/nccl_plugin/abi/nccl_abi.h",  # NCCL's own enumeration, whose numbers its library fixes
]
# What names a type that it has chosen: it needs no other, and a new one changes nothing here.
USE_TYPE = {
    "int8": ["worker/libsummand/libsummand.3", "worker/perf/summand-perf.1", "worker/nccl_perf/summand-nccl-perf.1"],
    "uint8": ["worker/nccl_plugin/collnet/collnet.c"],  # bytes
    "int32": ["specs/design/rdma.md", "specs/guide/digits.md", "tools/bench-rdma", "worker/examples/digits/trainer.c",
              "worker/libsummand/request.c", "worker/perf/rank.c"],
    "int64": ["orchestrator/frontend/vertex/study.c"],
    "uint64": ["worker/perf/summand-perf.1", "worker/nccl_perf/summand-nccl-perf.1"],
    "float16": ["specs/design/performance.md", "reduction_server/base/dtype.c", "worker/libsummand/libsummand.3", "worker/summand.h"],
    "float32": ["reduction_server/base/dtype.c", "reduction_server/base/dtype.h", "worker/libsummand/config.c",
                "worker/libsummand/path_narrow.c", "worker/libsummand/path_narrow.h", "worker/nccl_plugin/collnet/loops.c", "specs/design/collnet.md", "worker/summand.h", "specs/design/performance.md", "specs/guide/allreduce.svg",
                "specs/guide/digits.md", "specs/guide/nccl.md", "tools/bench-allreduce", "tools/gpu-check",
                "tools/gpu/time_collectives.py", "tools/gpu/train_ddp.py", "worker/examples/digits/checkpoint.h", "worker/examples/digits/trainer.c",
                "worker/libsummand/libsummand.3", "worker/nccl_perf/main.c", "worker/nccl_perf/summand-nccl-perf.1",
                "worker/perf/input.c", "worker/perf/main.c", "worker/perf/summand-perf.1"],
    "bfloat16": ["specs/design/performance.md", "specs/guide/nccl.md", "reduction_server/base/dtype.c", "worker/libsummand/libsummand.3", "worker/summand.h", "worker/perf/summand-perf.1", "worker/nccl_perf/summand-nccl-perf.1"],
}
# Types that the binding does not take: torch calculates little with them, or calls them otherwise.
NOT_IN_BINDING = {"uint32", "uint64", "float8e4m3", "float8e5m2"}
SERVER_OPTIONS = "reduction_server/server_options.c"
MAN = "reduction_server/summand-reduction-server.1"

# What C must have in one place, and the place. Tests too: they use it.
ONCE = [
    (r"0x100000001b3", "reduction_server/base/hash.h"),
    (r"0xbf58476d1ce4e5b9", "reduction_server/base/random.h"),
    (r"\bhto[lb]e(16|32|64)\b|\b[lb]e(16|32|64)toh\b", "reduction_server/base/bytes.h"),
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


def files(*tops):
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
    for constant, _, quoted, kernel in (row[:4] for row in types):
        name = quoted.strip('"')
        found = naming({constant, constant.replace("SMD_", "NCCL_", 1), name, kernel} - C_WORDS, texts)
        allowed = KNOW_TYPES + USE_TYPE.get(name, [])
        for path in found:
            must(path in allowed or path.startswith(KERNELS),
                 f"{name} must be named in its row, its kernels, its tests and the listed places alone, got {path}")
        for path in set(USE_TYPE.get(name, [])) - set(found):
            must(False, f"{path} is listed as a place of {name}, and must name it")
    for path in KNOW_TYPES:
        must(naming({"int8", "NCCL_INT8"}, {path: texts[path]}), f"{path} is listed as a place of every type, and must name int8")


def check_python(texts):
    """The binding has no C: its numbers are compared here."""
    numbers = {row[2].strip('"'): int(row[1]) for table in ("SMD_DTYPES", "SMD_OPS") for row in rows(texts[TYPES], table)}
    path = BINDING
    compared = set()
    for node in ast.parse(texts[path]).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("DTYPES", "OPS"):
            for key, value in zip(node.value.keys, node.value.values):
                name = key.attr if isinstance(key, ast.Attribute) else key.value
                compared.add(name)
                must(numbers.get(name) == value.value, f"{path}: {name} must be {numbers.get(name)}, got {value.value}")
    must(set(numbers) - compared == NOT_IN_BINDING,
         f"{path} must have every type and operation but {sorted(NOT_IN_BINDING)}, lacks {sorted(set(numbers) - compared)}")


def check_options(texts):
    """A server's option: its row, and its paragraph in the page. --help is made from the row, and
    functional.pages compares it with the page."""
    options = re.findall(r'^\t\t\{"([a-z-]+)",', texts[SERVER_OPTIONS], re.M)
    must(len(options) >= 9, f"{SERVER_OPTIONS} must have a table of options, got {options}")
    for option in options:
        must(len(re.findall(rf'"{option}"', texts[SERVER_OPTIONS])) == 1, f"--{option} must have one row in {SERVER_OPTIONS}")
        page = re.sub(r"\\f[BIRP]", "", texts[MAN]).replace("\\-", "-")
        paragraphs = re.findall(rf"^--{option}(?:=.*)?$", page, re.M)
        must(len(paragraphs) == 1, f"--{option} must have one paragraph in {MAN}, got {len(paragraphs)}")


def check_once(texts):
    for pattern, place in ONCE:
        found = [path for path, text in texts.items() if path.endswith((".c", ".h", ".inc")) and re.search(pattern, text)]
        must(found == [place], f"{pattern} must be in {place} alone, got {' '.join(found)}")


def tags(texts):
    """Where each struct, union and enum of C is defined: the tag, then its files."""
    pattern = re.compile(r"^(?:typedef )?(?:static )?(?:const )?(?:struct|union|enum) (\w+) \{", re.M)
    found = {}
    for path, text in texts.items():
        if path.endswith((".c", ".h", ".inc", ".cc")):
            for tag in pattern.findall(text):
                found.setdefault(tag, []).append(path)
    return found


def check_tags(texts, tests):
    """No tag names two things; tests may share names among themselves."""
    products = tags(texts)
    must(len(products) > 300, f"the product must have tags, got {len(products)}")
    for tag, paths in products.items():
        must(len(paths) == 1, f"{tag} must be defined once, got {' '.join(paths)}")
    for tag, paths in tags(tests).items():
        must(tag not in products, f"{tag} is of {' '.join(products.get(tag, []))}, got another in {' '.join(paths)}")


def main():
    os.chdir(os.environ["SUMMAND_SOURCE"])
    texts = {path: read(path)
             for path in files("CMakeLists.txt", "orchestrator", "reduction_server", "worker", "tools", "specs")}
    tests = {path: read(path) for path in files("tests")}
    check_types(texts)
    check_python(texts)
    check_options(texts)
    check_once(texts | tests)
    check_tags(texts, tests)
    return 1 if failures else 0


sys.exit(main())
