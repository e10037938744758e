// What the reduction servers of a job do: their figures, which the runner has from them each second.

import {barChart, timeChart} from "./charts.js";
import {h} from "./dom.js";
import {bytes, duration, figure} from "./text.js";

const SPAN = 120; // seconds that are kept
const SPAN_LEAST = 30;
const NAMED = 3; // late ranks

function number(server, key) {
	const value = Number(server.figures?.[key]);
	return Number.isFinite(value) ? value : 0;
}

function rate(value) {
	return `${bytes(value)}/s`;
}

// The figures of the last two minutes, as long as the page has been looking.
export class Servers {
	constructor() {
		this.samples = []; // {at, received, sent, busy, window}
		this.rates = new Map(); // of each server, its bytes per second
	}

	take(replicas, updateTime) {
		const servers = replicas.filter((replica) => replica.role === "reduction server" && replica.figures);
		const at = Date.parse(updateTime) / 1000;
		const last = this.samples[this.samples.length - 1];
		if (!servers.length || (last && at - last.at < 0.5)) {
			return;
		}
		const sum = (key) => servers.reduce((total, server) => total + number(server, key), 0);
		const sample = {at, received: sum("received_bytes"), sent: sum("sent_bytes"), busy: sum("slots_busy"), window: sum("window_slots"), each: new Map()};
		for (const server of servers) {
			const moved = number(server, "received_bytes") + number(server, "sent_bytes");
			const before = last?.each.get(server.name);
			sample.each.set(server.name, moved);
			if (before !== undefined) {
				this.rates.set(server.name, Math.max(0, moved - before) / (at - last.at));
			}
		}
		this.samples.push(sample);
		while (this.samples[0].at < at - SPAN) {
			this.samples.shift();
		}
	}

	get span() {
		const shown = this.samples.length ? this.samples[this.samples.length - 1].at - this.samples[0].at : 0;
		return Math.min(SPAN, Math.max(SPAN_LEAST, Math.ceil(shown / 30) * 30));
	}

	// A server that has begun again has counted from 0 anew.
	speeds(key) {
		const end = this.samples[this.samples.length - 1]?.at;
		return this.samples.slice(1).map((sample, i) => {
			const before = this.samples[i];
			return [end - sample.at, Math.max(0, sample[key] - before[key]) / (sample.at - before.at)];
		});
	}

	renderThroughput() {
		const series = [{name: "from workers", points: this.speeds("received")}, {name: "to workers", points: this.speeds("sent")}];
		const now = series.reduce((sum, {points}) => sum + (points.length ? points[points.length - 1][1] : 0), 0);
		return timeChart({title: "Throughput", series, text: rate, span: this.span, value: rate(now)});
	}

	renderWindow() {
		const end = this.samples[this.samples.length - 1]?.at;
		const share = ({busy, window}) => (window > 0 ? Math.min(100, (100 * busy) / window) : 0);
		const points = this.samples.map((sample) => [end - sample.at, share(sample)]);
		const text = (value) => `${Math.round(value)} %`;
		return timeChart({title: "Window in use", series: [{name: "slots in use", points}], text, span: this.span, most: 100,
			value: points.length ? text(points[points.length - 1][1]) : ""});
	}

	renderWeights(servers) {
		const bars = servers.map((server) => ({name: server.name, value: number(server, "weight"), text: `${figure(number(server, "weight") / 1000)} Gbit/s`}));
		return barChart({title: "Weights", bars, empty: "No server has said its weight yet."});
	}

	renderLate(servers) {
		const late = new Map();
		for (const server of servers) {
			const seconds = number(server, "late_seconds");
			const name = server.figures?.late_replica;
			if (name && name !== "-" && seconds > 0) {
				late.set(name, Math.max(seconds, late.get(name) || 0));
			}
		}
		const bars = [...late].sort((a, b) => b[1] - a[1]).slice(0, NAMED)
			.map(([name, seconds]) => ({name, value: seconds, text: duration(seconds)}));
		return barChart({title: "Slowest rank", bars, value: bars.length ? bars[0].name : "none is late", empty: "No rank keeps the others waiting."});
	}

	render(replicas) {
		const servers = replicas.filter((replica) => replica.role === "reduction server");
		if (!servers.some((server) => server.figures)) {
			return h("p", {class: "empty", key: "servers"}, "The reduction servers have reported no figures yet.");
		}
		return h("section", {key: "servers", "aria-label": "Reduction servers"},
			h("div", {class: "cards"}, this.renderThroughput(), this.renderWindow(), this.renderWeights(servers), this.renderLate(servers)),
			h("div", {class: "wide", tabindex: "0", role: "region", "aria-label": "Table of reduction servers"}, h("table", {class: "trials"},
				h("caption", {class: "visually-hidden"}, "Reduction servers"),
				h("thead", {}, h("tr", {}, h("th", {scope: "col"}, "Server"),
					["Speed", "Received", "Sent", "Chunks", "Groups", "Slots in use"].map((text) => h("th", {scope: "col", class: "number"}, text)))),
				h("tbody", {}, servers.map((server) => h("tr", {key: server.name}, h("th", {scope: "row"}, server.name),
					[rate(this.rates.get(server.name) || 0), bytes(number(server, "received_bytes")), bytes(number(server, "sent_bytes")),
						figure(number(server, "chunks")), figure(number(server, "groups")),
						`${number(server, "slots_busy")} of ${number(server, "window_slots")}`].map((text) => h("td", {class: "number"}, text))))))));
	}
}
