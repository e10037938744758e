// Reads each line of a file as an ExportTraceServiceRequest, by OpenTelemetry's protocol buffers, which know no fields of ours: what
// comes back from their bytes must be what the line says. Prints how many spans there are.
'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const root = require('@opentelemetry/otlp-transformer/build/src/generated/root.js');

const Request = root.opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest;
const IDS = ['traceId', 'spanId', 'parentSpanId'];

// OTLP's JSON has ids in hexadecimal, where that of protocol buffers has base64; and bytes have no empty lists.
function mapIds(document, change) {
	return JSON.parse(JSON.stringify(document), (key, value) =>
		(IDS.includes(key) ? change(value) : Array.isArray(value) && value.length === 0 ? undefined : value));
}

let spans = 0;
for (const line of fs.readFileSync(process.argv[2], 'utf8').trimEnd().split('\n')) {
	const document = JSON.parse(line);
	const message = Request.fromObject(mapIds(document, (id) => Buffer.from(id, 'hex').toString('base64')));
	const read = Request.decode(Request.encode(message).finish());
	const back = Request.toObject(read, {longs: String, bytes: String, json: true});
	assert.deepStrictEqual(mapIds(back, (id) => Buffer.from(id, 'base64').toString('hex')), mapIds(document, (id) => id));
	for (const resource of read.resourceSpans) {
		for (const scope of resource.scopeSpans) {
			for (const span of scope.spans) {
				assert.strictEqual(span.traceId.length, 16);
				assert.strictEqual(span.spanId.length, 8);
				spans++;
			}
		}
	}
}
console.log(spans);
