// Makes elements, and brings what is shown to what is to be shown. Texts are only ever texts: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";
const HANDLERS = ["onclick", "oninput", "onchange", "onsubmit", "onkeydown", "onscroll"];

function fill(element, attributes, children) {
	for (const [name, value] of Object.entries(attributes || {})) {
		if (HANDLERS.includes(name)) {
			element[name] = value;
		} else if (value === true) {
			element.setAttribute(name, "");
		} else if (value !== false && value !== null && value !== undefined) {
			element.setAttribute(name, value);
		}
	}
	element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
	return element;
}

// h("p", {class: "note"}, "text", h("b", {}, "more"))
export function h(tag, attributes, ...children) {
	return fill(document.createElement(tag), attributes, children);
}

// The same for a part of a drawing.
export function s(tag, attributes, ...children) {
	return fill(document.createElementNS(SVG, tag), attributes, children);
}

function keyOf(node) {
	return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("key") : null;
}

function isSame(live, next) {
	return live.nodeName === next.nodeName && keyOf(live) === keyOf(next);
}

function morphAttributes(live, next) {
	for (const {name} of [...live.attributes]) {
		if (!next.hasAttribute(name) && name !== "open") {
			live.removeAttribute(name);
		}
	}
	for (const {name, value} of next.attributes) {
		if (live.getAttribute(name) !== value) {
			live.setAttribute(name, value);
		}
	}
	for (const name of HANDLERS) {
		if (live[name] !== next[name]) {
			live[name] = next[name];
		}
	}
}

// Children with a key are found again wherever they are, others by their order.
function morphChildren(live, next) {
	const keyed = new Map();
	for (const child of live.childNodes) {
		if (keyOf(child) !== null) {
			keyed.set(keyOf(child), child);
		}
	}
	let place = live.firstChild;
	for (const wanted of [...next.childNodes]) {
		const key = keyOf(wanted);
		const found = key !== null ? keyed.get(key) : place && keyOf(place) === null ? place : null;
		if (found && isSame(found, wanted)) {
			if (found === place) {
				place = place.nextSibling;
			} else {
				live.insertBefore(found, place);
			}
			morph(found, wanted);
		} else {
			live.insertBefore(wanted, place);
		}
	}
	while (place) {
		const after = place.nextSibling;
		place.remove();
		place = after;
	}
}

// Makes `live` look as `next` does, and keeps focus, selection and place of scrolling. What has the attribute "own" sees
// to its children itself.
export function morph(live, next) {
	if (!isSame(live, next)) {
		live.replaceWith(next);
		return;
	}
	if (live.nodeType === Node.TEXT_NODE) {
		if (live.data !== next.data) {
			live.data = next.data;
		}
		return;
	}
	morphAttributes(live, next);
	if (!live.hasAttribute("own")) {
		morphChildren(live, next);
	}
}

export function show(parent, ...children) {
	const next = parent.cloneNode(false);
	for (const name of HANDLERS) {
		next[name] = parent[name];
	}
	next.append(...children.flat(Infinity).filter(Boolean));
	morph(parent, next);
}

// Says something to who does not see.
export function announce(text) {
	document.getElementById("announcement").textContent = text;
}
