// A job's lines: the last ones, then those that come, and older ones when they are asked for.

import {ask, quote} from "./api.js";
import {h} from "./dom.js";
import {clock, hasEnded, moment} from "./text.js";

const PAGE = 500;
const KEPT_MAX = 5000; // lines that a browser shows easily
const NEAR = 40; // pixels from the end: who is there wants to see the next line
const TONES = 8;
const SEVERE = {WARNING: "warning", ERROR: "error", CRITICAL: "error", ALERT: "error", EMERGENCY: "error"};

// The same one for a replica each time.
function toneOf(task) {
	let sum = 0;
	for (const character of task) {
		sum = (sum * 31 + character.codePointAt(0)) % 9973;
	}
	return sum % TONES;
}

function marked(text, word) {
	if (!word) {
		return text;
	}
	const parts = [];
	const low = text.toLowerCase();
	const wanted = word.toLowerCase();
	let from = 0;
	// A letter may be longer in small: then places differ, and nothing is marked.
	while (low.length === text.length) {
		const at = low.indexOf(wanted, from);
		if (at < 0) {
			break;
		}
		parts.push(text.slice(from, at), h("mark", {}, text.slice(at, at + wanted.length)));
		from = at + wanted.length;
	}
	return [...parts, text.slice(from)];
}

export class Log {
	constructor(job, changed) {
		[, this.project, , , , this.id] = job.split("/");
		this.changed = changed;
		this.lines = h("div", {class: "lines", role: "log", "aria-live": "off", tabindex: "0", "aria-label": "Lines of the job", own: true});
		this.lines.onscroll = () => this.onScroll();
		this.follows = true;
		this.setFilter("", "", false);
	}

	setFilter(task, text, severe) {
		if (this.task === task && this.text === text && this.severe === severe) {
			return;
		}
		Object.assign(this, {task, text, severe, first: null, last: null, hasOlder: false, isRead: false, follows: true, turn: {}});
		this.lines.replaceChildren();
	}

	async ask(order, token, ...terms) {
		const filter = [`resource.labels.job_id=${quote(this.id)}`, this.task && `resource.labels.task_name=${quote(this.task)}`,
			this.text && `textPayload:${quote(this.text)}`, this.severe && "(severity=WARNING OR severity=ERROR OR severity=CRITICAL)", ...terms];
		const page = await ask("POST", "/v2/entries:list", {
			resourceNames: [`projects/${this.project}`], filter: filter.filter(Boolean).join(" AND "), orderBy: `timestamp ${order}`, pageSize: PAGE, pageToken: token,
		});
		return {entries: page.entries || [], token: page.nextPageToken || ""};
	}

	make(entry) {
		const trial = entry.labels?.["ml.googleapis.com/trial_id"];
		const task = (trial ? `trial ${trial} ` : "") + (entry.resource.labels.task_name || "");
		return h("div", {class: `line ${SEVERE[entry.severity] || ""}`},
			h("time", {datetime: entry.timestamp, title: moment(entry.timestamp)}, clock(entry.timestamp)), " ",
			h("span", {class: `task tone-${toneOf(task)}`}, task), " ",
			h("span", {class: "said"}, marked(entry.textPayload || "", this.text)));
	}

	add(entries) {
		if (!entries.length) {
			return;
		}
		this.first = this.first || entries[0];
		this.last = entries[entries.length - 1];
		this.lines.append(...entries.map((entry) => this.make(entry)));
		while (this.follows && this.lines.childElementCount > KEPT_MAX) {
			this.lines.firstElementChild.remove();
		}
		this.stay();
	}

	stay() {
		if (this.follows) {
			this.lines.scrollTop = this.lines.scrollHeight;
		}
	}

	// What comes while a filter is changed belongs to no one.
	async load() {
		const turn = this.turn;
		let page;
		if (!this.last) {
			page = await this.ask("desc", "");
			if (turn === this.turn) {
				this.isRead = true;
				this.hasOlder = Boolean(page.token);
				this.add(page.entries.reverse());
			}
			return;
		}
		const {timestamp, insertId} = this.last;
		let token = "";
		do {
			page = await this.ask("asc", token, `((timestamp=${quote(timestamp)} AND insertId>${quote(insertId)}) OR timestamp>${quote(timestamp)})`,
				`timestamp>=${quote(timestamp)}`);
			if (turn !== this.turn) {
				return;
			}
			this.add(page.entries);
			token = page.token;
		} while (token);
	}

	async loadOlder() {
		const turn = this.turn;
		const {timestamp, insertId} = this.first;
		const page = await this.ask("desc", "", `((timestamp=${quote(timestamp)} AND insertId<${quote(insertId)}) OR timestamp<${quote(timestamp)})`,
			`timestamp<=${quote(timestamp)}`);
		if (turn !== this.turn || !page.entries.length) {
			this.hasOlder = false;
			this.changed();
			return;
		}
		const height = this.lines.scrollHeight - this.lines.scrollTop;
		page.entries.reverse();
		this.first = page.entries[0];
		this.hasOlder = Boolean(page.token);
		this.follows = false;
		this.lines.prepend(...page.entries.map((entry) => this.make(entry)));
		this.lines.scrollTop = this.lines.scrollHeight - height;
		this.changed();
	}

	onScroll() {
		const {scrollTop, scrollHeight, clientHeight} = this.lines;
		const follows = scrollHeight - scrollTop - clientHeight < NEAR;
		if (follows !== this.follows) {
			this.follows = follows;
			this.changed();
		}
	}

	render(job, names, set) {
		return h("section", {class: "log", key: "log", "aria-label": "Logs"},
			h("div", {class: "tools"},
				h("input", {
					type: "search", "data-search": true, placeholder: "Find in all lines   /", "aria-label": "Find in all lines", value: this.text,
					oninput: (event) => {
						clearTimeout(this.typing);
						this.typing = setTimeout((text) => set({q: text}), 250, event.target.value);
					},
				}),
				h("select", {"aria-label": "Replica", onchange: (event) => set({replica: event.target.value})},
					h("option", {value: "", selected: !this.task}, "All replicas"),
					names.map((name) => h("option", {value: name, selected: name === this.task}, name))),
				h("label", {class: "check"}, h("input", {type: "checkbox", onchange: (event) => set({severe: event.target.checked ? "1" : ""})}),
					"Warnings and errors")),
			this.hasOlder && h("p", {class: "more"}, h("button", {type: "button", onclick: () => this.loadOlder()}, "Older lines")),
			this.isRead && !this.last && h("p", {class: "empty"},
				this.text || this.task || this.severe ? "No line is like that." : hasEnded(job.state) ? "The job has said nothing." : "The job has said nothing yet."),
			h("div", {class: "pane", key: "pane", own: true}),
			h("p", {class: "foot"}, this.follows
				? hasEnded(job.state) ? "These are the last lines." : "Following."
				: h("button", {
					type: "button",
					onclick: () => {
						this.follows = true;
						this.stay();
						this.changed();
					},
				}, "To the newest lines")));
	}

	// Puts the lines in their place, once they have one.
	mount(root) {
		const pane = root.querySelector(".pane");
		if (pane && this.lines.parentNode !== pane) {
			pane.replaceChildren(this.lines);
			this.stay();
		}
	}
}
