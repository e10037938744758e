// Asks something before anything else goes on.

import {h, show} from "./dom.js";

const dialog = document.getElementById("dialog");

export function isAsking() {
	return dialog.open;
}

function open(form, mayLeave) {
	show(dialog, form);
	dialog.oncancel = (event) => mayLeave || event.preventDefault();
	dialog.showModal();
}

// A question with two answers, of which the harmless one is at hand.
export function confirmThat({title, text, yes, no, act}) {
	open(h("form", {method: "dialog", key: "confirm"}, h("h2", {}, title), h("p", {}, text),
		h("div", {class: "actions"},
			h("button", {type: "submit", autofocus: true}, no),
			h("button", {type: "submit", class: "danger", id: "yes", onclick: act}, yes))), true);
}

export function askForToken(use) {
	if (dialog.open) {
		return;
	}
	open(h("form", {
		method: "dialog", key: "token",
		onsubmit: () => use(document.getElementById("token").value.trim()),
	}, h("h2", {}, "Token"),
	h("p", {}, "This service answers only who has its token. It is in the file that ", h("code", {}, "--token-file"),
		" names. This tab keeps it until you close it."),
	h("label", {for: "token"}, "Token"),
	h("input", {type: "password", id: "token", autocomplete: "off", required: true, spellcheck: "false"}),
	h("div", {class: "actions"}, h("button", {type: "submit", class: "main"}, "Open"))), false);
	document.getElementById("token").value = "";
	document.getElementById("token").focus();
}
