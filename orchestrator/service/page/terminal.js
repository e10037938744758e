// A shell in a replica: keys go to it, and what it prints is shown.

import {Failure, ask, pathOf} from "./api.js";
import {announce, h} from "./dom.js";
import {Screen} from "./screen.js";

const IDLE_MS = 5000; // the page has nothing else to ask
const AGAIN_MS = 1000;
const INPUT_MAX = 16384; // bytes of one request
const SAID_MAX = 400; // characters that are read out at once
const SAID_MS = 700;
const KEYS = {
	Enter: "\r", Backspace: "\x7f", Tab: "\t", Escape: "\x1b", Delete: "\x1b[3~", Insert: "\x1b[2~", PageUp: "\x1b[5~", PageDown: "\x1b[6~",
	F1: "\x1bOP", F2: "\x1bOQ", F3: "\x1bOR", F4: "\x1bOS", F5: "\x1b[15~", F6: "\x1b[17~", F7: "\x1b[18~", F8: "\x1b[19~", F9: "\x1b[20~",
	F10: "\x1b[21~", F11: "\x1b[23~", F12: "\x1b[24~",
};
const ARROWS = {ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F"};
const BUTTONS = [["Esc", "\x1b"], ["Tab", "\t"], ["Ctrl-C", "\x03"], ["Ctrl-D", "\x04"], ["↑", "ArrowUp", "Up"], ["↓", "ArrowDown", "Down"]];

function encode(bytes) {
	return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

function decode(text) {
	return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

function classOf({ink, ground, bold, under, swapped}) {
	const [front, back] = swapped ? [ground < 0 ? "ground" : ground, ink < 0 ? "ink" : ink] : [ink, ground];
	return [front !== -1 && `ink-${front}`, back !== -1 && `paper-${back}`, bold && "bold", under && "under"].filter(Boolean).join(" ");
}

export class TerminalView {
	static keyOf({segments}) {
		return segments.join("/");
	}

	constructor(address, draw) {
		this.draw = draw;
		this.period = IDLE_MS;
		this.job = address.segments.slice(0, 6).join("/");
		this.replica = address.segments[7] || "workerpool0-0";
		this.trial = address.segments[8]; // of a tuning job
		this.place = this.trial ? `${this.replica} of trial ${this.trial}` : this.replica;
		this.decoder = new TextDecoder();
		this.encoder = new TextEncoder();
		this.received = 0; // bytes
		this.sent = 0;
		this.waiting = new Uint8Array();
		this.said = "";
		this.rowsShown = 0;
		this.makeElements();
		this.observer = new ResizeObserver(() => this.fit());
		this.observer.observe(this.box);
	}

	get title() {
		return `${this.place} – terminal`;
	}

	makeElements() {
		this.keys = h("textarea", {class: "keys", "aria-label": `Keys for the shell in ${this.place}. Shift and Tab leave it.`, autocapitalize: "off",
			autocomplete: "off", spellcheck: "false", rows: "1",
			onkeydown: (event) => this.onKey(event), oninput: (event) => event.isComposing || this.onText()});
		this.keys.addEventListener("paste", (event) => this.onPaste(event));
		this.keys.addEventListener("compositionend", () => this.onText());
		this.history = h("div", {class: "history"});
		this.lines = h("div", {class: "rows"});
		this.measure = h("span", {class: "measure", "aria-hidden": "true"}, "M".repeat(10));
		this.box = h("div", {class: "screen", own: true, onclick: () => this.onClick()}, h("div", {"aria-hidden": "true"}, this.history, this.lines), this.measure, this.keys);
		this.reader = h("div", {class: "visually-hidden", role: "log", "aria-live": "polite", "aria-label": "What the shell says", own: true});
	}

	setAddress() {}

	close() {
		this.isClosed = true;
		this.observer.disconnect();
		clearTimeout(this.reading);
		if (this.name && !this.end) {
			ask("DELETE", pathOf(this.name)).catch(() => null);
		}
	}

	// The shell begins when its place on the page is known; after that it is asked for output without an end.
	async load() {
		if (this.name || this.end) {
			return;
		}
		const parent = await ask("GET", pathOf(this.job));
		this.jobName = parent.displayName;
		this.isBegun = true;
	}

	async begin() {
		this.isBeginning = true;
		const [rows, columns] = this.size();
		this.screen = new Screen(rows, columns);
		try {
			this.name = (await ask("POST", `${pathOf(this.job)}/terminals`, {replica: this.replica, trial: this.trial, rows, columns})).name;
			if (this.isClosed) {
				await ask("DELETE", pathOf(this.name));
				return;
			}
			this.keys.focus({preventScroll: true});
			this.follow();
		} catch (failure) {
			this.finish(failure.message);
		}
	}

	finish(text) {
		this.end = text;
		this.say(`\n${text}`);
		this.draw();
	}

	async follow() {
		while (!this.isClosed) {
			let answer;
			try {
				answer = await ask("GET", `${pathOf(this.name)}?offset=${this.received}`);
			} catch (failure) {
				if (!(failure instanceof Failure) || failure.status) {
					this.finish(failure.message);
					return;
				}
				await new Promise((done) => { setTimeout(done, AGAIN_MS); });
				continue;
			}
			this.take(decode(answer.data), Number(answer.offset));
			if (answer.hasEnded && !answer.data) {
				this.finish(answer.reason || (answer.exitCode === undefined ? "The shell has ended." : `The shell has ended with ${answer.exitCode}.`));
				return;
			}
		}
	}

	take(bytes, offset) {
		const fresh = bytes.slice(Math.max(0, this.received - offset));
		if (!fresh.length) {
			return;
		}
		this.received = offset + bytes.length;
		const text = this.decoder.decode(fresh, {stream: true});
		this.screen.feed(text);
		if (this.screen.answers) {
			this.send(this.screen.answers);
			this.screen.answers = "";
		}
		this.say(text);
		if (!this.isDrawing) {
			this.isDrawing = true;
			requestAnimationFrame(() => this.drawScreen());
		}
	}

	// Read out as it comes, in pieces that can be listened to.
	say(text) {
		// eslint-disable-next-line no-control-regex
		this.said = (this.said + text.replace(/\x1b(\[[0-9;?>=]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][A-Z0-9]|.)/g, "").replace(/[\x00-\x09\x0b-\x1f\x7f]/g, "")).slice(-SAID_MAX);
		this.reading ||= setTimeout(() => {
			this.reading = 0;
			this.reader.append(h("p", {}, this.said));
			this.said = "";
			while (this.reader.childElementCount > 20) {
				this.reader.firstElementChild.remove();
			}
		}, SAID_MS);
	}

	// ---- what is pressed ----

	send(text) {
		const more = this.encoder.encode(text);
		const all = new Uint8Array(this.waiting.length + more.length);
		all.set(this.waiting);
		all.set(more, this.waiting.length);
		this.waiting = all;
		this.flush();
	}

	// One request at a time, so what is typed comes in its order; what may not have come is sent again, from its place.
	async flush() {
		if (this.isSending || this.end || !this.name) {
			return;
		}
		this.isSending = true;
		while (this.waiting.length && !this.end && !this.isClosed) {
			const part = this.waiting.slice(0, INPUT_MAX);
			try {
				await ask("POST", `${pathOf(this.name)}:write`, {offset: String(this.sent), data: encode(part)});
				this.sent += part.length;
				this.waiting = this.waiting.slice(part.length);
			} catch (failure) {
				if (failure.status && failure.status !== 429) {
					this.finish(failure.message);
				} else {
					await new Promise((done) => { setTimeout(done, AGAIN_MS); });
				}
			}
		}
		this.isSending = false;
	}

	arrow(name) {
		return `\x1b${this.screen?.keysAreApplication ? "O" : "["}${ARROWS[name]}`;
	}

	keyOf(event) {
		const {key} = event;
		if (event.ctrlKey && !event.altKey && key.length === 1) {
			const code = key.toUpperCase().charCodeAt(0);
			return key === " " ? "\0" : code >= 64 && code < 96 ? String.fromCharCode(code - 64) : null;
		}
		if (event.altKey && !event.ctrlKey && key.length === 1) {
			return `\x1b${key}`;
		}
		return ARROWS[key] ? this.arrow(key) : KEYS[key] || null;
	}

	onKey(event) {
		const isPaste = (event.ctrlKey && event.shiftKey) || event.metaKey;
		const leaves = event.key === "Tab" && event.shiftKey;
		const copies = event.ctrlKey && event.key === "c" && !getSelection().isCollapsed;
		const text = event.isComposing || isPaste || leaves || copies ? null : this.keyOf(event);
		if (text !== null) {
			event.preventDefault();
			this.send(text);
		}
	}

	onText() {
		const {value} = this.keys;
		this.keys.value = "";
		this.send(value.replace(/\n/g, "\r"));
	}

	onPaste(event) {
		event.preventDefault();
		const text = event.clipboardData.getData("text/plain").replace(/\r?\n/g, "\r").replaceAll("\x1b", "");
		this.send(this.screen?.pastesAreMarked ? `\x1b[200~${text}\x1b[201~` : text);
	}

	onClick() {
		if (getSelection().isCollapsed) {
			this.keys.focus({preventScroll: true});
		}
	}

	// ---- what is seen ----

	size() {
		const cell = this.measure.getBoundingClientRect();
		const style = getComputedStyle(this.box);
		const inside = (size, one, other) => size - parseFloat(style[one]) - parseFloat(style[other]);
		const columns = Math.floor(inside(this.box.clientWidth, "paddingLeft", "paddingRight") / (cell.width / 10));
		const rows = Math.floor(inside(this.box.clientHeight, "paddingTop", "paddingBottom") / cell.height);
		return [Math.max(4, Math.min(rows || 24, 500)), Math.max(10, Math.min(columns || 80, 1000))];
	}

	fit() {
		if (!this.screen || this.end || !this.name) {
			return;
		}
		const [rows, columns] = this.size();
		if (rows === this.screen.rows && columns === this.screen.columns) {
			return;
		}
		this.screen.resize(rows, columns);
		this.drawScreen();
		ask("POST", `${pathOf(this.name)}:resize`, {rows, columns}).catch(() => null);
	}

	renderLine(line, cursor) {
		const parts = [];
		let last = null;
		let length = line.length;
		while (length > cursor + 1 && line[length - 1].text === " " && classOf(line[length - 1].style) === "") {
			length--;
		}
		line.slice(0, length).forEach((cell, column) => {
			const name = `${classOf(cell.style)}${column === cursor ? " cursor" : ""}`;
			if (last && last.name === name) {
				last.text += cell.text;
			} else {
				last = {name, text: cell.text};
				parts.push(last);
			}
		});
		return h("div", {}, parts.map(({name, text}) => (name ? h("span", {class: name}, text) : text)));
	}

	drawScreen() {
		this.isDrawing = false;
		const {screen, box} = this;
		const follows = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
		const fresh = Math.min(screen.keptCount - this.rowsShown, screen.kept.length);
		this.history.append(...screen.kept.slice(screen.kept.length - fresh).map((line) => this.renderLine(line, -1)));
		this.rowsShown = screen.keptCount;
		while (this.history.childElementCount > screen.kept.length) {
			this.history.firstElementChild.remove();
		}
		this.lines.replaceChildren(...screen.lines.map((line, row) => this.renderLine(line, row === screen.row && !screen.hidden ? screen.column : -1)));
		if (follows) {
			box.scrollTop = box.scrollHeight;
		}
	}

	press(key) {
		this.send(ARROWS[key] ? this.arrow(key) : key);
		this.keys.focus({preventScroll: true});
	}

	render() {
		const link = `#/${this.job.split("/").map(encodeURIComponent).join("/")}`;
		return [
			h("div", {class: "head", key: "head"},
				h("nav", {"aria-label": "Where you are"}, h("a", {href: "#/"}, "Jobs"), " / ", h("a", {href: link}, this.jobName)),
				h("div", {class: "title"}, h("h1", {}, this.place))),
			h("div", {class: "tools", key: "tools", role: "toolbar", "aria-label": "Keys"}, BUTTONS.map(([text, key, name]) => h("button",
				{type: "button", disabled: Boolean(this.end), "aria-label": name, onclick: () => this.press(key)}, text)),
			h("span", {class: "hint"}, "Shift-Tab leaves the shell.")),
			h("div", {class: "pane", key: "pane", own: true}),
			this.end && h("p", {class: "problem mild", key: "end", role: "alert"}, this.end, " ",
				h("button", {type: "button", id: "again", onclick: () => this.again()}, "Begin another")),
		];
	}

	again() {
		Object.assign(this, {name: null, end: null, received: 0, sent: 0, waiting: new Uint8Array(), rowsShown: 0, isBeginning: false, isSending: false,
			decoder: new TextDecoder()});
		this.history.replaceChildren();
		announce("Another shell begins.");
		this.draw();
	}

	// The elements are put in their place once there is one; then there is room to be measured.
	afterRender() {
		const pane = document.querySelector(".pane");
		if (pane && this.box.parentNode !== pane) {
			pane.replaceChildren(this.box, this.reader);
		}
		if (!this.isBeginning && !this.end) {
			this.begin();
		}
	}
}
