// Puts times, amounts and states into words.

export const STATES = {
	JOB_STATE_QUEUED: ["Waiting", "waiting"],
	JOB_STATE_PENDING: ["Starting", "waiting"],
	JOB_STATE_RUNNING: ["Running", "running"],
	JOB_STATE_SUCCEEDED: ["Succeeded", "good"],
	JOB_STATE_FAILED: ["Failed", "bad"],
	JOB_STATE_CANCELLING: ["Cancelling", "waiting"],
	JOB_STATE_CANCELLED: ["Cancelled", "over"],
};

export const REPLICA_STATES = {
	PENDING: ["not started", "waiting"],
	STARTING: ["starting", "waiting"],
	RUNNING: ["running", "running"],
	STOPPING: ["stopping", "waiting"],
	SUCCEEDED: ["succeeded", "good"],
	FAILED: ["failed", "bad"],
	STOPPED: ["stopped", "over"],
};

export const TRIAL_STATES = {
	REQUESTED: ["requested", "waiting"],
	ACTIVE: ["running", "running"],
	STOPPING: ["stopping", "waiting"],
	SUCCEEDED: ["succeeded", "good"],
	INFEASIBLE: ["infeasible", "bad"],
};

export function hasEnded(state) {
	return ["JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"].includes(state);
}

// 3725 s is "1 h 2 min".
export function duration(seconds) {
	const whole = Math.max(0, Math.floor(seconds));
	const days = Math.floor(whole / 86400);
	const hours = Math.floor(whole / 3600) % 24;
	const minutes = Math.floor(whole / 60) % 60;
	if (days) {
		return `${days} d ${hours} h`;
	}
	if (hours) {
		return `${hours} h ${minutes} min`;
	}
	return minutes ? `${minutes} min ${whole % 60} s` : `${whole} s`;
}

export function lasted(job) {
	if (!job.startTime) {
		return "";
	}
	const end = job.endTime ? Date.parse(job.endTime) : Date.now();
	return duration((end - Date.parse(job.startTime)) / 1000);
}

export function ago(time) {
	const seconds = (Date.now() - Date.parse(time)) / 1000;
	if (seconds < 60) {
		return "just now";
	}
	if (seconds < 86400) {
		return `${duration(seconds).replace(/ \d+ s$/, "")} ago`;
	}
	return new Date(time).toLocaleDateString(undefined, {year: "numeric", month: "short", day: "numeric"});
}

export function moment(time) {
	return new Date(time).toLocaleString(undefined, {dateStyle: "medium", timeStyle: "medium"});
}

export function clock(time) {
	return new Date(time).toLocaleTimeString(undefined, {hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23"});
}

// 1234567 bytes are "1.23 MB".
export function bytes(count) {
	const units = ["B", "kB", "MB", "GB", "TB", "PB"];
	let unit = 0;
	while (count >= 1000 && unit + 1 < units.length) {
		count /= 1000;
		unit++;
	}
	return `${unit === 0 ? Math.round(count) : count.toPrecision(3)} ${units[unit]}`;
}

export function figure(value) {
	if (!Number.isFinite(value)) {
		return "–";
	}
	const size = Math.abs(value);
	if (size !== 0 && (size < 0.001 || size >= 1e6)) {
		return value.toExponential(2);
	}
	return String(Number(value.toPrecision(4)));
}
