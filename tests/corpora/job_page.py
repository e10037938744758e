#!/usr/bin/env python3
"""summand-job(5) is what the JSON Schemas say, and its example is valid; with --update the page is written anew."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ.get("SUMMAND_SOURCE", pathlib.Path(__file__).parents[2]))
PAGE = SOURCE / "orchestrator/frontend/summand-job.5"
INT_MAX = 2**31 - 1

HEAD = r""".\" Made by tests/corpora/job_page.py --update of specs/schema, which is made of the tables of the front ends.
.TH SUMMAND-JOB 5 "" "Summand 0.1.0" "Summand"
.nh
.ad l
.SH NAME
summand-job \- the files that describe jobs for summand
.SH DESCRIPTION
A job file is JSON or YAML.
It holds a CustomJob, a CustomJobSpec, a HyperparameterTuningJob or a TrainingPipeline of the Vertex AI API, a command
job of Azure ML (version 2), or a run configuration of its version 1.
.BR summand (1)
tells them apart by their fields.
.SS Worker pools
The place of a worker pool decides its role.
.TP
.B 0
The chief: one replica. The job succeeds when it does.
.TP
.B 1
Workers.
.TP
.B 2
Reduction servers, if the image\(aqs name is
.I reductionserver
or the command begins with
.BR summand\-reduction\-server ,
else parameter servers.
.TP
.B 3
Evaluators, outside the cluster that trains.
.SS Rules
A field that is not listed here is an error, and the message names the nearest one.
Where Azure ML itself passes over further fields, as in a distribution, there is a warning instead, and the field has no effect.
null and an empty text are the same as no value.
A whole number may be written as a text, and the value of an enumeration as its number.
Names of the Vertex AI API are also taken in snake_case, with a warning.
A field that is
.I kept
stays in the job as it is and has no effect on this machine;
.B summand custom-jobs validate
says so.
YAML anchors, aliases and merge keys are taken.
"""

TAIL = r""".SH EXAMPLE
A chief, three workers and two reduction servers:
.PP
.nf
displayName: digits
labels:
  summand-distribution: pytorch
  summand-restart-policy: on-failure
jobSpec:
  scheduling:
    timeout: 3600s
  workerPoolSpecs:
    - machineSpec: {machineType: n1-standard-8}
      containerSpec: {imageUri: none, command: [python3, train.py]}
    - machineSpec: {machineType: n1-standard-8}
      replicaCount: 3
      containerSpec: {imageUri: none, command: [python3, train.py]}
    - machineSpec: {machineType: n1-highcpu-16}
      replicaCount: 2
      containerSpec: {imageUri: reductionserver}
.fi
.SH FILES
The folder specs/schema of the source has the same fields as JSON Schemas, for editors.
.SH SEE ALSO
.BR summand (1),
.BR summand-reduction-server (1)
"""

# The messages that begin a section, with its name; what they refer to follows them.
SECTIONS = [("job", "CustomJob", "CUSTOM JOBS"),
            ("job", "HyperparameterTuningJob", "TUNING JOBS"),
            ("job", "TrainingPipeline", "TRAINING PIPELINES"),
            ("azure_command_job", "CommandJob", "COMMAND JOBS OF AZURE ML"),
            ("azure_run_configuration", "RunConfiguration", "RUN CONFIGURATIONS OF AZURE ML")]


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("/", "/\\:")
    return "\\&" + text if text.startswith(".") else text


def is_null(schema):
    return schema.get("type") == "null"


def references(schema):
    """The messages in it, in their order."""
    found = []
    for key, value in schema.items() if isinstance(schema, dict) else enumerate(schema):
        if key == "$ref":
            found.append(value.rpartition("/")[2])
        elif isinstance(value, (dict, list)) and key != "not":
            found += references(value)
    return list(dict.fromkeys(found))


def joined(words):
    return " or ".join(", ".join(words).rsplit(", ", 1)) if words else ""


def number(schema):
    low, high = schema.get("minimum"), schema.get("maximum", INT_MAX)
    if high != INT_MAX:
        return f"whole number from {low} to {high}"
    return f"whole number, {low} or more" if low is not None else "whole number"


def kind(schema):
    """A value's type in words."""
    any_of = [one for one in schema.get("anyOf", []) if not is_null(one)]
    names = references(schema)
    if "enum" in schema:
        return joined([value for value in schema["enum"] if isinstance(value, str)])
    if "$ref" in schema:
        return f"object: {names[0]}"
    if len(any_of) == 1:
        return kind(any_of[0])
    if any_of and any_of[0].get("type") == "integer":
        return number(any_of[0])
    if any_of:
        return joined([kind(one) for one in any_of if one.get("type") != "object"])
    if schema.get("type") == "array":
        items = schema.get("items", {})
        return f"list of {names[0]}" if names else f"list: {kind(items[0] if isinstance(items, list) else items)}"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        return f"object of {names[0]}s or values" if names and inner else "object of texts"
    if isinstance(schema.get("type"), list):
        return "text, number, true or false"
    return {"string": "text", "boolean": "true or false", "number": "number"}.get(schema.get("type"), "anything")


def seconds(schema):
    text = json.dumps(schema)
    return "s$" in text and "[0-9]{1,10}" in text


def heading(name, schema, required):
    what = "seconds such as \"60s\"" if seconds(schema) else kind(schema)
    return f"\\fB{roff(name)}\\fR ({roff(what)}{', required' if required else ''})"


def write_message(name, message):
    """Fields of which the same is said, one after the other, have it said once."""
    yield f".SS {name}"
    last = None
    for field, schema in message["properties"].items():
        if last not in (None, schema["description"]):
            yield roff(last)
        yield ".TQ" if last == schema["description"] else ".TP"
        yield heading(field, schema, field in message.get("required", []))
        last = schema["description"]
    yield roff(last)


def settings(schemas):
    labels = schemas["job"]["definitions"]["CustomJob"]["properties"]["labels"]
    properties = next(one for one in labels["anyOf"] if "properties" in one)["properties"]
    yield ".SH SETTINGS"
    yield "These labels of a CustomJob or a HyperparameterTuningJob say what the Vertex AI API has no field for."
    yield "Each is a flag of"
    yield ".BR summand (1)"
    yield "too, without summand\\-."
    for name, schema in properties.items():
        yield ".TP"
        yield f"\\fB{roff(name)}\\fR ({roff(kind(schema))})"
        yield roff(schema["description"])


def page():
    schemas = {file: json.loads((SOURCE / f"specs/schema/{file}.schema.json").read_text(encoding="utf-8"))
               for file in ("job", "azure_command_job", "azure_run_configuration")}
    lines = []
    written = set()

    def write(file, name):
        if name not in written:
            message = schemas[file]["definitions"][name]
            written.add(name)
            lines.extend(write_message(name, message))
            for reference in references(message["properties"]):
                write(file, reference)

    for file, name, heading in SECTIONS:
        lines.append(f".SH {heading}")
        write(file, name)
    lines.extend(settings(schemas))
    missing = {name for schema in schemas.values() for name in schema["definitions"]} - written
    if missing:
        sys.exit(f"FAILED: no section has {', '.join(sorted(missing))}: add where it belongs to SECTIONS")
    return HEAD + "\n".join(lines) + "\n" + TAIL


def example(text):
    """The job between .nf and .fi."""
    return text.partition("\n.nf\n")[2].partition("\n.fi\n")[0].replace("\\-", "-")


def main():
    text = page()
    if sys.argv[1:] == ["--update"]:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") != text:
        print("FAILED: orchestrator/frontend/summand-job.5 must be what specs/schema says: run "
              "tests/corpora/job_page.py --update")
        return 1
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        file.write(example(text))
        file.flush()
        return subprocess.run([os.path.join(os.environ["SUMMAND_BUILD"], "bin/summand"), "custom-jobs", "validate",
                               file.name], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
