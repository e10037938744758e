// What a terminal shows: takes what a program prints, with the control sequences of an xterm that shells, editors and
// pagers use. It knows nothing of the page.

const KEPT_MAX = 2000; // rows that have scrolled out
const PARAMETER_MAX = 9999;
const PLAIN = {ink: -1, ground: -1, bold: false, under: false, swapped: false};
const BASIC = [[0, 0, 0], [205, 0, 0], [0, 205, 0], [205, 205, 0], [0, 0, 238], [205, 0, 205], [0, 205, 205], [229, 229, 229],
	[127, 127, 127], [255, 0, 0], [0, 255, 0], [255, 255, 0], [92, 92, 255], [255, 0, 255], [0, 255, 255], [255, 255, 255]];

// Of the sixteen colours that a theme has, the nearest.
function nearest(red, green, blue) {
	const away = ([r, g, b]) => (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2;
	return BASIC.reduce((best, color, i) => (away(color) < away(BASIC[best]) ? i : best), 0);
}

function basicOf(number) {
	if (number < 16) {
		return number;
	}
	if (number >= 232) {
		const grey = 8 + 10 * (number - 232);
		return nearest(grey, grey, grey);
	}
	const level = (part) => (part ? 55 + 40 * part : 0);
	const cube = number - 16;
	return nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

export class Screen {
	constructor(rows, columns) {
		this.kept = []; // rows that have scrolled out, the oldest first
		this.keptCount = 0; // all that ever have
		this.answers = ""; // to what the program has asked
		this.reset(rows, columns);
	}

	reset(rows, columns) {
		Object.assign(this, {rows, columns, row: 0, column: 0, style: PLAIN, top: 0, bottom: rows - 1, saved: null, other: null,
			wraps: false, hidden: false, state: "ground", sequence: "", keysAreApplication: false, pastesAreMarked: false});
		this.lines = Array.from({length: rows}, () => this.blank());
	}

	blank() {
		return Array.from({length: this.columns}, () => ({text: " ", style: this.eraser}));
	}

	// What is erased has the ground that is set now.
	get eraser() {
		return this.style && this.style.ground >= 0 ? {...PLAIN, ground: this.style.ground} : PLAIN;
	}

	resize(rows, columns) {
		if (rows === this.rows && columns === this.columns) {
			return;
		}
		this.columns = columns;
		const fit = (lines) => lines.map((line) => [...line.slice(0, columns), ...this.blank().slice(line.length)]);
		while (this.lines.length > rows && this.lines.length - 1 > this.row) {
			this.lines.pop();
		}
		while (this.lines.length > rows) {
			this.keep(this.lines.shift());
			this.row--;
		}
		this.lines = fit(this.lines);
		while (this.lines.length < rows) {
			this.lines.push(this.blank());
		}
		if (this.other) {
			this.other.lines = fit(this.other.lines.slice(0, rows));
			while (this.other.lines.length < rows) {
				this.other.lines.push(this.blank());
			}
		}
		Object.assign(this, {rows, top: 0, bottom: rows - 1, row: Math.max(0, this.row), column: Math.min(this.column, columns - 1), wraps: false});
	}

	keep(line) {
		this.kept.push(line);
		this.keptCount++;
		if (this.kept.length > KEPT_MAX) {
			this.kept.shift();
		}
	}

	scrollUp(count) {
		for (let i = 0; i < Math.min(count, this.rows); i++) {
			const [line] = this.lines.splice(this.top, 1);
			if (this.top === 0 && !this.other) {
				this.keep(line);
			}
			this.lines.splice(this.bottom, 0, this.blank());
		}
	}

	scrollDown(count) {
		for (let i = 0; i < Math.min(count, this.rows); i++) {
			this.lines.splice(this.bottom, 1);
			this.lines.splice(this.top, 0, this.blank());
		}
	}

	lineFeed() {
		if (this.row === this.bottom) {
			this.scrollUp(1);
		} else if (this.row < this.rows - 1) {
			this.row++;
		}
	}

	put(text) {
		if (this.wraps) {
			this.column = 0;
			this.lineFeed();
			this.wraps = false;
		}
		this.lines[this.row][this.column] = {text, style: this.style};
		if (this.column === this.columns - 1) {
			this.wraps = true;
		} else {
			this.column++;
		}
	}

	moveTo(row, column) {
		this.row = Math.max(0, Math.min(this.rows - 1, row));
		this.column = Math.max(0, Math.min(this.columns - 1, column));
		this.wraps = false;
	}

	erase(row, from, to) {
		for (let column = from; column < to; column++) {
			this.lines[row][column] = {text: " ", style: this.eraser};
		}
	}

	eraseLine(how) {
		this.erase(this.row, how === 0 ? this.column : 0, how === 1 ? this.column + 1 : this.columns);
	}

	eraseScreen(how) {
		for (let row = how === 0 ? this.row + 1 : 0; row < (how === 1 ? this.row : this.rows); row++) {
			this.lines[row] = this.blank();
		}
		if (how < 2) {
			this.eraseLine(how);
		}
		if (how === 3) {
			this.kept = [];
		}
	}

	// The screen that editors have for themselves, or the one before it.
	useOther(isOn) {
		if (isOn && !this.other) {
			this.other = {lines: this.lines, row: this.row, column: this.column};
			this.lines = Array.from({length: this.rows}, () => this.blank());
		} else if (!isOn && this.other) {
			this.lines = this.other.lines;
			this.moveTo(this.other.row, this.other.column);
			this.other = null;
		}
		this.top = 0;
		this.bottom = this.rows - 1;
	}

	setMode(mode, isOn) {
		switch (mode) {
		case "?1":
			this.keysAreApplication = isOn;
			break;
		case "?25":
			this.hidden = !isOn;
			break;
		case "?47": case "?1047": case "?1049":
			this.useOther(isOn);
			break;
		case "?2004":
			this.pastesAreMarked = isOn;
			break;
		default: // others change nothing that is seen here
		}
	}

	setStyle(list) {
		let style = this.style;
		for (let i = 0; i < list.length; i++) {
			const number = list[i];
			const isGround = number === 48 || (number >= 40 && number <= 47) || (number >= 100 && number <= 107);
			const part = isGround ? "ground" : "ink";
			if (number === 0) {
				style = PLAIN;
			} else if (number === 1 || number === 22) {
				style = {...style, bold: number === 1};
			} else if (number === 4 || number === 24) {
				style = {...style, under: number === 4};
			} else if (number === 7 || number === 27) {
				style = {...style, swapped: number === 7};
			} else if ((number >= 30 && number <= 37) || (number >= 40 && number <= 47)) {
				style = {...style, [part]: number % 10};
			} else if ((number >= 90 && number <= 97) || (number >= 100 && number <= 107)) {
				style = {...style, [part]: 8 + (number % 10)};
			} else if (number === 39) {
				style = {...style, ink: -1};
			} else if (number === 49) {
				style = {...style, ground: -1};
			} else if ((number === 38 || number === 48) && list[i + 1] === 5) {
				style = {...style, [part]: basicOf((list[i + 2] || 0) & 255)};
				i += 2;
			} else if ((number === 38 || number === 48) && list[i + 1] === 2) {
				style = {...style, [part]: nearest(list[i + 2] || 0, list[i + 3] || 0, list[i + 4] || 0)};
				i += 4;
			}
		}
		this.style = style;
	}

	insertLines(count, isDeletion) {
		if (this.row < this.top || this.row > this.bottom) {
			return;
		}
		for (let i = 0; i < Math.min(count, this.rows); i++) {
			this.lines.splice(isDeletion ? this.row : this.bottom, 1);
			this.lines.splice(isDeletion ? this.bottom : this.row, 0, this.blank());
		}
	}

	insertCells(count, isDeletion) {
		const line = this.lines[this.row];
		const cells = this.blank().slice(0, Math.min(count, this.columns - this.column));
		if (isDeletion) {
			line.splice(this.column, cells.length);
			line.push(...cells);
		} else {
			line.splice(this.column, 0, ...cells);
			line.length = this.columns;
		}
	}

	// "ESC [ parameters final"
	control(text, final) {
		const mark = /^[?>=!]/.test(text) ? text[0] : "";
		const list = text.slice(mark.length).replace(/[^0-9;:]/g, "").split(/[;:]/).map((word) => Math.min(Number(word) || 0, PARAMETER_MAX));
		const count = Math.max(1, list[0]);
		if (mark && !"hl".includes(final)) {
			return;
		}
		switch (final) {
		case "A": this.moveTo(this.row - count, this.column); break;
		case "B": case "e": this.moveTo(this.row + count, this.column); break;
		case "C": case "a": this.moveTo(this.row, this.column + count); break;
		case "D": this.moveTo(this.row, this.column - count); break;
		case "E": this.moveTo(this.row + count, 0); break;
		case "F": this.moveTo(this.row - count, 0); break;
		case "G": case "`": this.moveTo(this.row, count - 1); break;
		case "H": case "f": this.moveTo(count - 1, Math.max(1, list[1] || 0) - 1); break;
		case "d": this.moveTo(count - 1, this.column); break;
		case "J": this.eraseScreen(list[0]); break;
		case "K": this.eraseLine(list[0]); break;
		case "L": this.insertLines(count, false); break;
		case "M": this.insertLines(count, true); break;
		case "@": this.insertCells(count, false); break;
		case "P": this.insertCells(count, true); break;
		case "X": this.erase(this.row, this.column, Math.min(this.columns, this.column + count)); break;
		case "S": this.scrollUp(count); break;
		case "T": this.scrollDown(count); break;
		case "m": this.setStyle(list); break;
		case "n": this.answers += list[0] === 6 ? `\x1b[${this.row + 1};${this.column + 1}R` : list[0] === 5 ? "\x1b[0n" : ""; break;
		case "c": this.answers += "\x1b[?6c"; break;
		case "r": this.setRegion(count - 1, (list[1] || this.rows) - 1); break;
		case "s": this.save(); break;
		case "u": this.restore(); break;
		case "h": case "l": list.forEach((mode) => this.setMode(mark + mode, final === "h")); break;
		default: // what nothing here needs
		}
	}

	setRegion(top, bottom) {
		const last = Math.min(bottom, this.rows - 1);
		if (top < last) {
			this.top = top;
			this.bottom = last;
			this.moveTo(0, 0);
		}
	}

	save() {
		this.saved = {row: this.row, column: this.column, style: this.style};
	}

	restore() {
		this.style = this.saved?.style || PLAIN;
		this.moveTo(this.saved?.row || 0, this.saved?.column || 0);
	}

	escape(character) {
		this.state = "ground";
		switch (character) {
		case "[": this.state = "control"; this.sequence = ""; break;
		case "]": case "P": case "X": case "^": case "_": this.state = "text"; break;
		case "(": case ")": case "*": case "+": case "#": case " ": case "%": this.state = "one"; break;
		case "7": this.save(); break;
		case "8": this.restore(); break;
		case "D": this.lineFeed(); break;
		case "E": this.column = 0; this.lineFeed(); break;
		case "M": if (this.row === this.top) { this.scrollDown(1); } else { this.moveTo(this.row - 1, this.column); } break;
		case "c": this.reset(this.rows, this.columns); break;
		default: // keypads and such
		}
	}

	// A character that is no printed one.
	act(character) {
		switch (character) {
		case "\n": case "\v": case "\f": this.lineFeed(); this.wraps = false; break;
		case "\r": this.moveTo(this.row, 0); break;
		case "\b": this.moveTo(this.row, this.column - 1); break;
		case "\t": this.moveTo(this.row, (Math.floor(this.column / 8) + 1) * 8); break;
		case "\x1b": this.state = "escape"; break;
		default: // bells and such
		}
	}

	take(character) {
		switch (this.state) {
		case "escape":
			this.escape(character);
			break;
		case "control":
			if (character === "\x1b") {
				this.state = "escape";
			} else if (character >= "@" && character <= "~") {
				this.state = "ground";
				this.control(this.sequence, character);
			} else if (character < " ") {
				this.act(character);
			} else if (this.sequence.length < 256) {
				this.sequence += character;
			}
			break;
		case "text": // a title, which is not shown
			if (character === "\x07" || character === "\x18" || character === "\x1a") {
				this.state = "ground";
			} else if (character === "\x1b") {
				this.state = "escape"; // and what follows ends it
			}
			break;
		case "one":
			this.state = "ground";
			break;
		default:
			if (character < " " || character === "\x7f") {
				this.act(character);
			} else if (/\p{M}/u.test(character) && this.column > 0) {
				const cell = this.lines[this.row][this.wraps ? this.column : this.column - 1];
				cell.text = cell.text.length < 16 ? cell.text + character : cell.text;
			} else {
				this.put(character);
			}
		}
	}

	feed(text) {
		for (const character of text) {
			this.take(character);
		}
	}

	static textOf(line) {
		return line.map((cell) => cell.text).join("").trimEnd();
	}
}
