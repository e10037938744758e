#!/usr/bin/env python3
"""Specs that are too large to keep as files: each is refused with a reason, within bounded memory,
and values of variables pass through a job unchanged."""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

SUMMAND = os.environ["SUMMAND_BUILD"] + "/bin/summand"
MEMORY_MAX = 1 << 30
TASK = {"imageUri": "a", "command": ["b"]}

failures = 0


def fail(text):
    global failures
    failures += 1
    print("FAILED:", text)


def limit_memory():
    # A sanitizer, named as the argument, reserves memory of its own.
    if len(sys.argv) < 2:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX, MEMORY_MAX))


def look_at(name, text, verb):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return subprocess.run(
            [SUMMAND, "custom-jobs", verb, str(path)],
            capture_output=True,
            preexec_fn=limit_memory,
            check=False,
        )


def refused(name, text, reason, verb="validate", most=100000):
    done = look_at(name, text, verb)
    said = done.stderr.decode(errors="replace")
    if done.returncode != 2 or reason not in said:
        fail(f"{name}: must be refused with '{reason}', got {done.returncode}: {said[:300]}")
    if len(said) > most:
        fail(f"{name}: must be refused in few words, got {len(said)} bytes")


def spec(**fields):
    return json.dumps({"workerPoolSpecs": [{"containerSpec": {**TASK, **fields}}]})


def test_sizes():
    many = "must have at most 100000 values"
    refused("args.json", spec(args=["x" * 10] * 700000), many)
    refused("args.yaml", "a:\n" + "- x\n" * 2000000, many)
    refused("keys.json", "{" + ",".join(f'"k{i}":1' for i in range(1000000)) + "}", many)
    refused("same.yaml", "a: 1\n" * 1000000, many)
    refused("same.json", "{" + ",".join(['"a":1'] * 90000) + "}", "duplicate object key")
    refused("unknown.json", "{" + ",".join(f'"k{i}":1' for i in range(90000)) + "}", "more are not shown")
    long = "x" * 2000000
    for place in ({long: 1}, {"jobSpec": {long: 1}}, {"labels": {long: 1}}, {"labels": {"a": "b", long: "c"}},
                  {"jobSpec": {"workerPoolSpecs": [{"containerSpec": {long: [{long: 1}]}}]}},
                  {"jobSpec": {"workerPoolSpecs": [{"machineSpec": {"acceleratorType": long}}]}},
                  {"jobSpec": {"workerPoolSpecs": [{"machineSpec": {long: {}, "machineType": long}}]}}):
        refused("long.json", json.dumps({"displayName": "a", **place}), "x" * 20 + "...", most=3000)
    refused("variable.json", spec(env={long: "b"}), 'write [{"name": "NAME", "value": ...}, ...]', most=3000)
    refused("long.yaml", f"displayName: a\n{long[:1000]}: 1\n{long[:900]}: 1", "x" * 20 + "...", most=3000)
    refused("twice.json", '{"%s": 1, "%s": 1}' % (long, long), "duplicate object key", most=3000)
    refused("wide.json", json.dumps({"ö" * 1000: 1}), "ö" * 32 + "..." + "ö" * 32 + ": unknown field", most=3000)
    refused("nest.json", "[" * 10000000, many)
    refused("nest.yaml", "[" * 10000000, "must nest at most 100 levels deep")
    refused("maps.yaml", "\n".join(" " * i + "a:" for i in range(2000)), "must nest at most 100 levels deep")
    refused("name.json", json.dumps({"displayName": "x" * 10000000, "jobSpec": {}}), "must have at most 128 characters, got 10000000")
    laughs = "a0: &a0 [x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12))
    refused("laughs.yaml", laughs, many[:-7] + " values, those that aliases stand for included", most=3000)
    refused("merges.yaml", "a: &a {" + ", ".join(f"k{i}: 1" for i in range(30000)) + "}\n" + "".join(
        f"b{i}: {{<<: *a}}\n" for i in range(5)), "those that aliases stand for included", most=3000)
    refused("texts.yaml", f"a: &a {'x' * (1 << 20)}\nb: [{', '.join(['*a'] * 1000)}]\n",
            "aliases must stand for at most 64 MiB of text", most=3000)
    refused("anchors.yaml", "".join(f"a{i}: &a{i} 1\n" for i in range(2000)), "must have at most 1000 anchors")
    deep = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 200))
    refused("deep.yaml", deep, "must nest at most 100 levels deep", most=3000)
    refused("long.json", " " * (100 << 20), "must be at most 64 MiB long")
    refused("open.json", '{"a": "' + "x" * 10000000, "must be JSON")
    refused("nul.yaml", b"a: " + b"\0" * 1000000, "must be YAML")
    refused("bytes.json", bytes(range(256)) * 40000, "must be JSON")
    refused("bytes.yaml", bytes(range(128, 256)) * 40000, "must be YAML")
    refused("azure.yaml", "command: '" + "${{inputs.x}} " * 700000 + "'\ninputs: {x: 1}\n", "must be at most 102400 bytes long")
    refused("inputs.yaml", "command: x\ninputs:\n" + "".join(f"  i{i}: 1\n" for i in range(2000)), "must have at most 1000 names, got 2000")


def test_expansions():
    """A few bytes that would become very many, and strings that no program can be given."""
    doubled = [{"name": "A0", "value": "x" * 100}]
    doubled += [{"name": f"A{i}", "value": f"$(A{i - 1})$(A{i - 1})"} for i in range(1, 60)]
    most = [{"name": "A", "value": "x" * (131072 - 3)}]
    place = "/workerPoolSpecs/0/containerSpec"
    for verb in "validate", "plan", "env", "local-run":
        long = "must be at most 131072 bytes long on Linux when expanded, got more"
        refused("env.json", spec(env=doubled), f"{place}/env/11/value: {long}", verb)
        refused("long.json", spec(env=[{"name": "AB", "value": most[0]["value"]}]), f"{place}/env/0/value: {long}", verb)
        refused("args.json", spec(env=most, args=["a", "$(A)$(A)"]), f"{place}/args/1: {long}", verb)
        refused("open.json", spec(args=["$(" * 2000000]), f"{place}/args/0: {long}", verb)
        refused("word.json", spec(args=["x" * 131072]), f"{place}/args/0: {long}", verb)
        refused("command.json", spec(command=["a", "x" * 131072]), f"{place}/command/1: {long}", verb)
    done = look_at("most.json", spec(env=most, args=["$(A)xx"]), "validate")
    if done.returncode != 0:
        fail(f"what fits must be valid: {done.stderr.decode()[:300]}")


def run(folder, text, *flags):
    path = folder / "spec.json"
    path.write_text(text, encoding="utf-8")
    environment = {**os.environ, "SUMMAND_STATE_DIR": str(folder / "state")}
    return subprocess.run(
        [SUMMAND, "custom-jobs", "local-run", str(path), *flags],
        capture_output=True,
        env=environment,
        check=False,
    )


def test_names_are_no_paths():
    """A job's name becomes a directory's, and stays where directories of jobs are."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for hostile in ("../../escaped", "/etc/passwd", "..", "a/../../b"):
            job = {"displayName": hostile, "jobSpec": json.loads(spec(command=["true"]))}
            done = run(folder, json.dumps(job))
            if done.returncode != 0:
                fail(f"a job of the name {hostile} must run: {done.stderr.decode()}")
        made = {entry.name for entry in folder.iterdir()}
        if made != {"spec.json", "state"} or len(list((folder / "state" / "jobs").iterdir())) != 4:
            fail(f"jobs must stay in their directory, got {sorted(made)}")


def test_values_pass_unchanged():
    values = {
        "LINES": "one\ntwo\r\n\n",
        "QUOTES": "'\"`\\'\\\\",
        "EQUALS": "a=b==c=",
        "SHELL_": "$HOME ${HOME} $(HOME_) ; rm -rf * & | > <",
        "EMPTY": "",
        "WIDE": "größe 日本 \u200b\U0001f680",
        "LONG": "x" * 100000,
    }
    program = "import json, os; json.dump(dict(os.environ), open(os.environ['OUT'], 'w'))"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        env = [{"name": key, "value": value} for key, value in values.items()]
        env.append({"name": "OUT", "value": str(folder / "out.json")})
        done = run(folder, spec(command=["python3", "-c", program], env=env))
        if done.returncode != 0:
            fail(f"the job must run: {done.stderr.decode()}")
            return
        got = json.loads((folder / "out.json").read_text(encoding="utf-8"))
        for key, value in values.items():
            if got.get(key) != value:
                fail(f"{key} must be {value[:80]!r}, got {str(got.get(key))[:80]!r}")


def main():
    test_sizes()
    test_expansions()
    test_names_are_no_paths()
    test_values_pass_unchanged()
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
