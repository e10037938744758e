// The trials of a tuning job: a chart for each metric, and all of them in a table, the best first.

import {badge} from "./badge.js";
import {trialChart} from "./charts.js";
import {h} from "./dom.js";
import {TRIAL_STATES, duration, figure} from "./text.js";

function valueOf(trial, metric) {
	return (trial.finalMeasurement?.metrics || []).find((one) => one.metricId === metric)?.value;
}

function better(goal) {
	return goal === "MINIMIZE" ? (a, b) => a < b : (a, b) => a > b;
}

function chartOf(metric, trials) {
	const measured = trials.map((trial) => ({number: Number(trial.id), value: valueOf(trial, metric.metricId)}))
		.filter((trial) => Number.isFinite(trial.value));
	const isBest = better(metric.goal);
	if (!measured.length) {
		return null;
	}
	const best = measured.reduce((a, b) => (isBest(b.value, a.value) ? b : a));
	return trialChart({
		title: metric.goal === "MINIMIZE" ? `${metric.metricId}, the less the better` : `${metric.metricId}, the more the better`,
		trials: measured, isBest, text: figure, value: `best ${figure(best.value)}, trial ${best.number}`,
	});
}

function parameter(value) {
	return typeof value === "number" ? figure(value) : String(value);
}

function row(trial, metrics, names, isBest, addressOf) {
	const [start, end] = [trial.startTime, trial.endTime].map((time) => (time ? Date.parse(time) : Date.now()));
	const values = new Map((trial.parameters || []).map((one) => [one.parameterId, one.value]));
	return h("tr", {key: trial.id, class: isBest ? "chosen" : ""},
		h("th", {scope: "row"}, trial.id),
		h("td", {}, badge(TRIAL_STATES[trial.state] || [trial.state, "over"]), trial.infeasibleReason && h("div", {class: "reason"}, trial.infeasibleReason),
			Object.keys(trial.webAccessUris || {}).map((node) => h("div", {}, h("a", {class: "shell", href: addressOf(trial.id, node),
				"aria-label": `Terminal in ${node} of trial ${trial.id}`}, `Terminal in ${node}`)))),
		metrics.map((metric) => {
			const value = valueOf(trial, metric.metricId);
			return h("td", {class: "number"}, value === undefined ? "–" : figure(value));
		}),
		names.map((name) => h("td", {class: "number"}, values.has(name) ? parameter(values.get(name)) : "–")),
		h("td", {class: "number"}, trial.startTime ? duration((end - start) / 1000) : ""));
}

// `addressOf` is where a trial's replica has its terminal.
export function renderTrials(job, addressOf) {
	const metrics = job.studySpec?.metrics || [];
	const names = (job.studySpec?.parameters || []).map((one) => one.parameterId);
	const trials = job.trials || [];
	if (!trials.length) {
		return h("p", {class: "empty", key: "trials"}, "No trial has begun yet.");
	}
	const [first] = metrics;
	const isBest = better(first?.goal);
	const rank = (trial) => valueOf(trial, first?.metricId);
	const sorted = [...trials].sort((a, b) => {
		const [x, y] = [rank(a), rank(b)];
		return x === undefined || y === undefined ? (x === undefined) - (y === undefined) || a.id - b.id : isBest(x, y) ? -1 : isBest(y, x) ? 1 : a.id - b.id;
	});
	return h("section", {key: "trials", "aria-label": "Trials"},
		metrics.map((metric) => chartOf(metric, trials)),
		h("div", {class: "wide", tabindex: "0", role: "region", "aria-label": "Table of trials"}, h("table", {class: "trials"},
			h("caption", {class: "visually-hidden"}, "Trials, the best first"),
			h("thead", {}, h("tr", {}, ["Trial", "State"].map((text) => h("th", {scope: "col"}, text)),
				[...metrics.map((metric) => metric.metricId), ...names, "Took"].map((text) => h("th", {scope: "col", class: "number"}, text)))),
			h("tbody", {}, sorted.map((trial, i) => row(trial, metrics, names, i === 0 && rank(trial) !== undefined, addressOf))))));
}
