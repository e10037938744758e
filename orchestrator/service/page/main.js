// Shows the view that the address names, and keeps it fresh while it is looked at.

import {setToken} from "./api.js";
import {askForToken, isAsking} from "./dialog.js";
import {announce, h, show} from "./dom.js";
import {JobView} from "./job.js";
import {ListView} from "./list.js";
import {TerminalView} from "./terminal.js";

const content = document.getElementById("content");
const connection = document.getElementById("connection");
const themes = {auto: "Theme: system", light: "Theme: light", dark: "Theme: dark"};
let view = null;
let timer = 0;
let turn = 0; // of the view: what an earlier one still waits for is left aside

function readAddress() {
	const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
	return {segments: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query || "")};
}

function viewOf(address) {
	const [, , , , kind, id, tab] = address.segments;
	return !kind || !id ? ListView : tab === "terminal" ? TerminalView : JobView;
}

// An address without anything else goes to the top; one that only changes a view's settings does not.
function route() {
	let address;
	try {
		address = readAddress();
	} catch {
		address = {segments: [], query: new URLSearchParams()};
	}
	const kind = viewOf(address);
	const key = kind.keyOf(address);
	if (!view || view.key !== key) {
		const isFirst = !view;
		view?.close();
		view = new kind(address, draw);
		view.key = key;
		turn++;
		show(content, h("p", {class: "empty"}, "Loading …"));
		window.scrollTo(0, 0);
		if (!isFirst) {
			content.focus({preventScroll: true});
		}
	} else {
		view.setAddress(address);
	}
	refresh();
}

function draw() {
	if (!view.isLoaded) {
		return;
	}
	document.title = view.title ? `${view.title} – Summand` : "Summand";
	show(content, view.render());
	view.afterRender?.();
}

async function refresh() {
	const mine = turn;
	clearTimeout(timer);
	if (document.hidden) {
		return;
	}
	try {
		await view.load();
		if (mine !== turn) {
			return;
		}
		view.isLoaded = true;
		setConnection("");
		draw();
	} catch (failure) {
		if (mine !== turn) {
			return;
		}
		if (failure.status === 401) {
			askForToken((token) => {
				setToken(token);
				setTimeout(refresh);
			});
			return;
		}
		showFailure(failure);
	}
	clearTimeout(timer);
	timer = setTimeout(refresh, view.period);
}

function setConnection(text) {
	if (connection.textContent !== text) {
		connection.textContent = text;
	}
}

function showFailure(failure) {
	if (failure.status === 0) {
		setConnection("Not connected, trying again …");
	} else if (failure.status === undefined) {
		throw failure;
	} else {
		setConnection("");
	}
	if (failure.status || !view.isLoaded) {
		show(content, h("div", {class: "problem", role: "alert"}, h("p", {}, failure.message), h("a", {href: "#/"}, "All jobs")));
	}
}

function setTheme(theme) {
	localStorage.setItem("summand-theme", theme);
	document.documentElement.dataset.theme = theme;
	document.getElementById("theme").textContent = themes[theme];
}

function nextTheme() {
	const names = Object.keys(themes);
	const theme = names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length];
	setTheme(theme);
	announce(themes[theme]);
}

function onKey(event) {
	const typing = event.target.matches?.("input, textarea, select");
	const field = document.querySelector("[data-search]");
	if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey && field && !isAsking()) {
		event.preventDefault();
		field.focus();
		field.select();
	}
}

const theme = localStorage.getItem("summand-theme");
setTheme(theme in themes ? theme : "auto");
document.getElementById("theme").onclick = nextTheme;
document.querySelector(".skip").onclick = (event) => {
	event.preventDefault();
	content.focus();
};
addEventListener("hashchange", route);
addEventListener("keydown", onKey);
document.addEventListener("visibilitychange", () => document.hidden || refresh());
route();
