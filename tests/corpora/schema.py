#!/usr/bin/env python3
"""The JSON Schemas in specs/schema take what is in valid/ and refuse what is in invalid/.

BEYOND names the files of which a schema cannot say what the program says, and why; a file that is
named there must indeed be judged otherwise by the schema.
"""

import json
import os
import pathlib
import sys

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"{missing.name} is not here (python3-jsonschema, python3-yaml)")
    sys.exit(77)

SOURCE = pathlib.Path(os.environ["SUMMAND_SOURCE"])
CORPORA = SOURCE / "tests" / "corpora"
SCHEMAS = SOURCE / "specs" / "schema"

BEYOND = {
    "valid/snake_case.yaml": "the schema has one spelling of each name",
    "invalid/duplicate_key.yaml": "a parser drops one of them",
    "invalid/yaml_anchor.yaml": "a parser resolves it",
}


def validator(name):
    with open(SCHEMAS / name, encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def read(path):
    """The document, or None when no parser takes it."""
    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, RecursionError, yaml.YAMLError):
        return None


def is_azure(document):
    return (
        isinstance(document, dict)
        and not {"jobSpec", "workerPoolSpecs"} & set(document)
        and bool({"type", "command", "$schema"} & set(document))
    )


def specs(folder):
    for path in sorted((CORPORA / folder).iterdir()):
        # spec.json.plan.json and the like are what is said of a spec.
        if path.suffix in (".json", ".yaml") and "." not in path.stem:
            yield path


def main():
    job = validator("job.schema.json")
    azure = validator("azure_command_job.schema.json")
    failures = 0
    judged = 0
    for folder in ("valid", "unrunnable", "invalid"):
        for path in specs(folder):
            document = read(path)
            judge = azure if is_azure(document) else job
            taken = document is not None and judge.is_valid(document)
            name = f"{folder}/{path.name}"
            expected = (folder != "invalid") != (name in BEYOND)
            judged += 1
            if taken != expected:
                failures += 1
                print(f"FAILED: {name}: the schema must {'take' if expected else 'refuse'} it")
                for error in judge.iter_errors(document) if document is not None else ():
                    print(f"    {error.json_path}: {error.message[:200]}")
    if judged < 40:
        failures += 1
        print(f"FAILED: there must be specs to judge, got {judged}")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
