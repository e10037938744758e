// Why a job has not the room that it had: another one needs it, or hosts are left out. And what can be done.

import {h} from "./dom.js";
import {hasEnded, moment} from "./text.js";

function linkTo({job, displayName}) {
	return job ? h("a", {href: `#/${job.split("/").map(encodeURIComponent).join("/")}`}, displayName) : "a job that is deleted since";
}

export function renderPreemption(preemption, job) {
	if (!preemption || hasEnded(job.state)) {
		return null;
	}
	const other = linkTo(preemption);
	const again = preemption.count > 1 ? `, ${preemption.count} times so far` : "";
	const what = preemption.makesRoom
		? ["It makes room for ", other, ", which has a higher priority, and is being stopped."]
		: [`It was preempted${again}: on ${moment(preemption.lastTime)} `, other, " needed its room. ",
			job.state === "JOB_STATE_QUEUED" ? "It waits again, and runs from its start once there is room." : "It runs again, from its start."];
	return h("div", {class: "note", role: "note"}, h("p", {}, what),
		h("p", {}, "Let it write checkpoints to its output folder and begin with the last one; to keep its room, create it with a higher ",
			h("code", {}, "summand-priority"), " or without ", h("code", {}, "summand-preemption"), "."));
}

export function renderLeftOut(hosts) {
	return hosts && h("div", {class: "note", role: "note"}, h("p", {}, `Hosts left out, because replicas have failed there: ${hosts}.`),
		h("p", {}, "They are asked for again after that time. Look at the logs of the replicas that failed there; with ", h("code", {}, "--host-failures=0"),
			" no host is ever left out."));
}
