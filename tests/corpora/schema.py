#!/usr/bin/env python3
"""The JSON Schemas in specs/schema take what is in valid/ and refuse what is in invalid/.

BEYOND names the files of which a schema cannot say what the program says, and why; a file that is
named there must indeed be judged otherwise by the schema. Every field that a schema has is used by a
file in valid/, so that what is said of it is in the corpora.
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

SCHEMA_NAMES = ["job", "azure_command_job", "azure_run_configuration"]

BEYOND = {
    "valid/snake_case.yaml": "the schema has one spelling of each name",
    "valid/as_gcloud_helps.yaml": "the schema tells editors to write lists",
    "valid/single_objects.json": "the schema tells editors to write lists",
    "invalid/duplicate_key.yaml": "a parser drops one of them",
    "invalid/azure_run_configuration_uneven.yaml": "a schema divides nothing",
    "invalid/accelerators_of_machines.yaml": "the catalogue knows the machines",
    "invalid/accelerators_of_trials.yaml": "the catalogue knows the machines",
    "invalid/tuning_names.yaml": "a schema cannot compare elements of a list",
    "invalid/tuning_values.yaml": "a schema cannot compare numbers",
    "invalid/server_in_a_shell.json": "a schema reads no shell",
}

# Places of the same message; a CustomJobSpec may be the document itself, "".
SAME = {
    "trialJobSpec": "jobSpec",
    "trainingTaskInputs": "jobSpec",
    "parameterSpec": "parameters",
    "minimumRuntimeConstraint": "maximumRuntimeConstraint",
    "outputs": "inputs",
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


def schema_of(document):
    """Which schema is a document's."""
    names = set(document) if isinstance(document, dict) else set()
    if {"jobSpec", "workerPoolSpecs"} & names:
        return "job"
    if {"script", "target"} & names:
        return "azure_run_configuration"
    return "azure_command_job" if {"type", "command", "$schema"} & names else "job"


def specs(folder):
    for path in sorted((CORPORA / folder).iterdir()):
        # spec.json.plan.json and the like are what is said of a spec.
        if path.suffix in (".json", ".yaml") and "." not in path.stem:
            yield path


def fields(schema, root, parent="", seen=frozenset()):
    """(parent, name) of all fields that a schema has; lists are transparent."""
    reference = schema.get("$ref")
    if reference:
        if (reference, parent) not in seen:
            definition = root["definitions"][reference.rpartition("/")[2]]
            yield from fields(definition, root, parent, seen | {(reference, parent)})
        return
    for name, part in schema.get("properties", {}).items():
        if part.get("type") != "null":  # one that is refused where something else is
            yield parent, name
            yield from fields(part, root, SAME.get(name, name), seen)
    for key in ("anyOf", "allOf", "items", "additionalProperties", "then", "else"):
        parts = schema.get(key, [])
        for part in parts if isinstance(parts, list) else [parts]:
            if isinstance(part, dict):
                yield from fields(part, root, parent, seen)


def used(document, parent=""):
    """(parent, name) of all fields that a document uses; lists and names of data are transparent."""
    if isinstance(document, list):
        for element in document:
            yield from used(element, parent)
    elif isinstance(document, dict):
        for name, value in document.items():
            yield parent, name
            yield from used(value, parent if parent == "inputs" else SAME.get(name, name))


def unused_fields():
    """Fields that the schemas have and no file in valid/ uses."""
    documents = [read(path) for path in specs("valid")]
    for name in SCHEMA_NAMES:
        with open(SCHEMAS / f"{name}.schema.json", encoding="utf-8") as file:
            schema = json.load(file)
        there = {pair for document in documents if schema_of(document) == name for pair in used(document)}
        there |= {("", field) for parent, field in there if parent == "jobSpec"}
        for pair in sorted(set(fields(schema, schema)) - there):
            yield name, "/".join(pair)


def main():
    judges = {name: validator(f"{name}.schema.json") for name in SCHEMA_NAMES}
    failures = 0
    judged = 0
    for folder in ("valid", "unrunnable", "invalid"):
        for path in specs(folder):
            document = read(path)
            judge = judges[schema_of(document)]
            taken = document is not None and judge.is_valid(document)
            name = f"{folder}/{path.name}"
            expected = (folder != "invalid") != (name in BEYOND)
            judged += 1
            if taken != expected:
                failures += 1
                print(f"FAILED: {name}: the schema must {'take' if expected else 'refuse'} it")
                for error in judge.iter_errors(document) if document is not None else ():
                    print(f"    {error.json_path}: {error.message[:200]}")
    for schema, field in unused_fields():
        failures += 1
        print(f"FAILED: {schema}: a file in valid/ must use {field}")
    if judged < 40:
        failures += 1
        print(f"FAILED: there must be specs to judge, got {judged}")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
