// Draws charts as SVG. Each says in words what it shows, for who does not see it.

import {h, s} from "./dom.js";

const WIDTH = 640;
const HEIGHT = 200;
const MARGIN = {top: 12, right: 20, bottom: 32, left: 76};

// Round numbers from 0, or from the least, to the most.
function ticks(least, most, count) {
	const span = most - least || Math.abs(most) || 1;
	const rough = span / count;
	const power = 10 ** Math.floor(Math.log10(rough));
	const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
	const list = [];
	for (let tick = Math.ceil(least / step - 1e-9) * step; tick <= most + step * 1e-9; tick += step) {
		list.push(Math.abs(tick) < step * 1e-9 ? 0 : tick);
	}
	return list;
}

// Powers of ten, where numbers are of many sizes.
function powers(least, most) {
	const low = Math.floor(Math.log10(least));
	const high = Math.ceil(Math.log10(most));
	const step = Math.ceil((high - low) / 5);
	return Array.from({length: Math.floor((high - low) / step) + 1}, (_, i) => 10 ** (low + i * step));
}

function scale(from, to, low, high) {
	return (value) => low + ((value - from) / (to - from || 1)) * (high - low);
}

function axes(x, y, xTicks, yTicks, xText, yText) {
	const right = WIDTH - MARGIN.right;
	const bottom = HEIGHT - MARGIN.bottom;
	return [
		yTicks.map((tick) => [
			s("line", {class: "grid", x1: MARGIN.left, x2: right, y1: y(tick), y2: y(tick)}),
			s("text", {class: "tick", x: MARGIN.left - 8, y: y(tick) + 4, "text-anchor": "end"}, yText(tick))]),
		xTicks.map((tick) => s("text", {class: "tick", x: x(tick), y: bottom + 23, "text-anchor": "middle"}, xText(tick))),
		s("line", {class: "axis", x1: MARGIN.left, x2: right, y1: bottom, y2: bottom}),
	];
}

function drawing(label, ...children) {
	return s("svg", {class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label}, ...children);
}

function legend(names) {
	return names.length > 1 && h("ul", {class: "legend"}, names.map((name, i) => h("li", {class: `series-${i % 6}`}, h("i", {"aria-hidden": "true"}), name)));
}

function card(title, value, label, body, names) {
	return h("figure", {class: "card", key: title},
		h("figcaption", {}, h("span", {}, title), value && h("strong", {}, value)),
		body, legend(names || []), label);
}

// Lines over the last seconds. series: [{name, points: [[seconds ago, value], ...]}]
export function timeChart({title, series, text, value, span, most}) {
	const values = series.flatMap((line) => line.points.map(([, figure]) => figure));
	const top = Math.max(most || 0, ...values) || 1;
	const yTicks = ticks(0, top, 4);
	const x = scale(-span, 0, MARGIN.left, WIDTH - MARGIN.right);
	const y = scale(0, Math.max(top, yTicks[yTicks.length - 1]) * 1.04, HEIGHT - MARGIN.bottom, MARGIN.top);
	const xTicks = [-span, -span / 2, 0];
	const lines = series.map((line, i) => s("polyline", {
		class: `series series-${i % 6}`, points: line.points.map(([at, figure]) => `${x(-at).toFixed(1)},${y(figure).toFixed(1)}`).join(" "),
	}));
	const label = `${title}: ${series.map((line) => `${line.name} ${line.points.length ? text(line.points[line.points.length - 1][1]) : "unknown"}`).join(", ")}`;
	return card(title, value, null, drawing(label,
		axes(x, y, xTicks, yTicks, (tick) => (tick === 0 ? "now" : `${Math.round(tick)} s`), text), lines), series.map((line) => line.name));
}

// Bars of one length for the most. bars: [{name, value, text, href}]
export function barChart({title, bars, most, value, empty}) {
	const top = most || Math.max(...bars.map((bar) => bar.value), 0) || 1;
	return card(title, value, null, bars.length
		? h("ul", {class: "bars"}, bars.map((bar) => h("li", {key: bar.name},
			h("span", {class: "bar-name"}, bar.name),
			s("svg", {class: "bar-line", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true"},
				s("rect", {class: "bar-all", width: 100, height: 8, rx: 2}),
				s("rect", {class: "bar-part", width: Math.max(0, Math.min(100, (100 * bar.value) / top)), height: 8, rx: 2})),
			h("span", {class: "bar-value"}, bar.text))))
		: h("p", {class: "empty"}, empty));
}

// What each trial came to, and the best so far. trials: [{number, value}], in their order
export function trialChart({title, trials, isBest, text, value}) {
	const values = trials.map((trial) => trial.value);
	const least = Math.min(...values);
	const most = Math.max(...values);
	const isWide = least > 0 && most > 100 * least;
	const size = isWide ? Math.log10 : (number) => number;
	const pad = (size(most) - size(least)) * 0.08 || Math.abs(size(most)) * 0.1 || 1;
	const last = trials[trials.length - 1].number;
	const x = scale(1, Math.max(last, 2), MARGIN.left + 12, WIDTH - MARGIN.right - 12);
	const height = scale(size(least) - pad, size(most) + pad, HEIGHT - MARGIN.bottom, MARGIN.top);
	const y = (number) => height(size(number));
	const yTicks = (isWide ? powers(least, most) : ticks(least - pad, most + pad, 4))
		.filter((tick) => size(tick) >= size(least) - pad && size(tick) <= size(most) + pad);
	const steps = [];
	let best = null;
	for (const trial of trials) {
		if (best === null || isBest(trial.value, best.value)) {
			if (best !== null) {
				steps.push(`${x(trial.number)},${y(best.value)}`);
			}
			best = trial;
			steps.push(`${x(trial.number)},${y(best.value)}`);
		}
	}
	steps.push(`${x(last)},${y(best.value)}`);
	const whole = ticks(1, Math.max(last, 2), 8).filter(Number.isInteger);
	const label = `${title} of ${trials.length} trials, from ${text(least)} to ${text(most)}; the best is ${text(best.value)}`;
	return card(title, value, null, drawing(label, axes(x, y, whole, yTicks, String, text),
		s("polyline", {class: "best", points: steps.join(" ")}),
		trials.map((trial) => s("circle", {class: trial === best ? "dot chosen" : "dot", cx: x(trial.number), cy: y(trial.value), r: 4.5},
			s("title", {}, `Trial ${trial.number}: ${text(trial.value)}`)))));
}
