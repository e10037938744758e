// The files that replicas have left in a job's output folder.

import {fetchBlob, pathOf} from "./api.js";
import {announce, h} from "./dom.js";
import {ago, bytes, moment} from "./text.js";

// By a request with the token: a link would have none.
async function save(job, name) {
	try {
		const address = URL.createObjectURL(await fetchBlob(`${pathOf(job)}/artifacts?artifact=${encodeURIComponent(name)}`));
		h("a", {href: address, download: name.split("/").pop()}).click();
		setTimeout(() => URL.revokeObjectURL(address), 60000);
		announce(`${name} is saved.`);
	} catch (failure) {
		announce(failure.message);
	}
}

export function renderArtifacts(job, found) {
	if (!found?.artifacts.length) {
		return h("p", {class: "empty", key: "artifacts"}, "The job has left no files in its output folder.");
	}
	const files = [...found.artifacts].sort((a, b) => (a.name < b.name ? -1 : 1));
	return h("div", {class: "wide", key: "artifacts"}, h("table", {class: "trials"},
		h("caption", {class: "visually-hidden"}, "Files of the job's output folder"),
		h("thead", {}, h("tr", {}, h("th", {scope: "col"}, "File"), h("th", {scope: "col", class: "number"}, "Size"),
			h("th", {scope: "col", class: "number"}, "Changed"), h("th", {scope: "col"}, h("span", {class: "visually-hidden"}, "Save")))),
		h("tbody", {}, files.map((file) => h("tr", {key: file.name}, h("th", {scope: "row"}, file.name),
			h("td", {class: "number"}, bytes(Number(file.sizeBytes))),
			h("td", {class: "number"}, h("time", {datetime: file.updateTime, title: moment(file.updateTime)}, ago(file.updateTime))),
			h("td", {class: "number"}, h("button", {type: "button", "aria-label": `Save ${file.name}`, onclick: () => save(job, file.name)}, "Save")))))),
	found.isTruncated && h("p", {class: "more"}, "There is more in the folder than is shown here."));
}
