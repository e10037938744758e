// Shows how far something is, how fast it gets on, and when it will be done.

import {h, s} from "./dom.js";
import {clock, duration, figure} from "./text.js";

function share({done, total}) {
	return total > 0 ? Math.min(1, done / total) : null;
}

export function percent(progress) {
	const part = share(progress);
	return part === null ? figure(progress.done) : `${(Math.floor(part * 1000) / 10).toFixed(1)} %`;
}

export function progressLine(progress) {
	const part = share(progress);
	return part !== null && s("svg", {viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true"},
		s("rect", {class: "bar-all", width: 100, height: 8}), s("rect", {class: "bar-part", width: 100 * part, height: 8}));
}

function amount({done, total, unit}) {
	return [total > 0 ? `${figure(done)} of ${figure(total)}` : figure(done), unit].filter(Boolean).join(" ");
}

// With its end while it runs.
export function renderProgress(progress, isRunning) {
	const part = share(progress);
	const rest = progress.estimatedEndTime && (Date.parse(progress.estimatedEndTime) - Date.now()) / 1000;
	const words = [amount(progress), isRunning && progress.rate > 0 && `${Number(progress.rate.toPrecision(3))} ${progress.unit || ""}/s`.replace(" /s", "/s"),
		isRunning && rest > 0 && `${duration(rest)} left, ends about ${clock(progress.estimatedEndTime).slice(0, 5)}`];
	return h("div", {
		class: "progress", key: "progress", role: "progressbar", "aria-label": "Progress", "aria-valuemin": 0,
		"aria-valuemax": part === null ? null : 100, "aria-valuenow": part === null ? null : Math.floor(part * 100), "aria-valuetext": words.filter(Boolean).join(", "),
	}, h("strong", {}, percent(progress)), h("span", {class: "rate"}, words.filter(Boolean).join(" · ")), progressLine(progress));
}
