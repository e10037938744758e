// A state, as a word beside a dot of its tone.

import {h} from "./dom.js";

export function badge([text, tone]) {
	return h("span", {class: `badge ${tone}`}, h("i", {"aria-hidden": "true"}), text);
}
