"""Traces as OTLP's JSON has them: lines of one trace, each an ExportTraceServiceRequest."""

import json


def attributes(of):
    return {each["key"]: next(iter(each["value"].values())) for each in of["attributes"]}


def read(test, path, lines=1):
    """The root of the trace, and all its spans in the order of their beginnings; the trace is as it must be."""
    found = []
    with open(path, encoding="utf-8") as file:
        texts = file.read().splitlines()
    test.assertEqual(len(texts), lines)
    for text in texts:
        [resource] = json.loads(text)["resourceSpans"]
        test.assertEqual(attributes(resource["resource"])["service.name"], "summand")
        [scope] = resource["scopeSpans"]
        found += scope["spans"]
    test.assertEqual(len({span["traceId"] for span in found}), 1)
    by_id = {span["spanId"]: span for span in found}
    test.assertEqual(len(by_id), len(found))
    [root] = [span for span in found if "parentSpanId" not in span]
    for span in found:
        test.assertRegex(span["traceId"], "^[0-9a-f]{32}$")
        test.assertRegex(span["spanId"], "^[0-9a-f]{16}$")
        test.assertLessEqual(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]))
        if span is not root:
            parent = by_id[span["parentSpanId"]]
            test.assertLessEqual(int(parent["startTimeUnixNano"]), int(span["startTimeUnixNano"]))
            test.assertLessEqual(int(span["endTimeUnixNano"]), int(parent["endTimeUnixNano"]))
    return root, sorted(found, key=lambda span: int(span["startTimeUnixNano"]))
