// The list of all jobs, of both kinds and all projects, the newest first.

import {ask, quote} from "./api.js";
import {badge} from "./badge.js";
import {announce, h} from "./dom.js";
import {STATES, ago, hasEnded, lasted, moment} from "./text.js";

const KINDS = ["customJobs", "hyperparameterTuningJobs"];
const PAGE = 100;
const MASK = "name,displayName,state,createTime,startTime,endTime,error";
const FILTERS = [
	["", "All", ""],
	["running", "Running", "(state=JOB_STATE_RUNNING OR state=JOB_STATE_CANCELLING)"],
	["waiting", "Waiting", "(state=JOB_STATE_QUEUED OR state=JOB_STATE_PENDING)"],
	["succeeded", "Succeeded", "state=JOB_STATE_SUCCEEDED"],
	["failed", "Failed", "state=JOB_STATE_FAILED"],
	["cancelled", "Cancelled", "state=JOB_STATE_CANCELLED"],
];

export class ListView {
	static keyOf() {
		return "list";
	}

	constructor(address, draw) {
		this.draw = draw;
		this.period = 2000;
		this.wanted = PAGE;
		this.jobs = [];
		this.states = new Map();
		this.setAddress(address);
	}

	setAddress({query}) {
		const state = query.get("state") || "";
		if (state !== this.state) {
			this.wanted = PAGE;
		}
		this.state = FILTERS.some(([name]) => name === state) ? state : "";
		this.search = query.get("q") || "";
	}

	close() {
		clearTimeout(this.typing);
	}

	filter() {
		const [, , state] = FILTERS.find(([name]) => name === this.state);
		return [state, this.search && `displayName:${quote(this.search)}`].filter(Boolean).join(" AND ");
	}

	// Pages are asked for until there are as many jobs as are wanted: a list that has been extended stays so.
	async loadKind(kind) {
		const filter = this.filter();
		const jobs = [];
		let token = "";
		do {
			const query = new URLSearchParams({pageSize: Math.min(1000, this.wanted - jobs.length), readMask: MASK});
			if (filter) {
				query.set("filter", filter);
			}
			if (token) {
				query.set("pageToken", token);
			}
			const page = await ask("GET", `/v1/projects/-/locations/-/${kind}?${query}`);
			jobs.push(...(page[kind] || []));
			token = page.nextPageToken;
		} while (token && jobs.length < this.wanted);
		return {jobs, hasMore: Boolean(token)};
	}

	async load() {
		const pages = await Promise.all(KINDS.map((kind) => this.loadKind(kind)));
		const jobs = pages.flatMap((page) => page.jobs);
		jobs.sort((a, b) => (a.createTime < b.createTime ? 1 : a.createTime > b.createTime ? -1 : 0));
		this.hasMore = pages.some((page) => page.hasMore) || jobs.length > this.wanted;
		this.jobs = jobs.slice(0, this.wanted);
		this.tellChanges();
	}

	// Who does not see hears of jobs that end.
	tellChanges() {
		for (const job of this.jobs) {
			const before = this.states.get(job.name);
			if (before && before !== job.state && hasEnded(job.state)) {
				announce(`${job.displayName}: ${STATES[job.state][0]}`);
			}
			this.states.set(job.name, job.state);
		}
	}

	go(state, search) {
		const query = new URLSearchParams();
		if (state) {
			query.set("state", state);
		}
		if (search) {
			query.set("q", search);
		}
		const hash = `#/${query.size ? `?${query}` : ""}`;
		if (location.hash !== hash) {
			location.replace(hash);
		}
	}

	renderRow(job) {
		const [, project, , place, kind] = job.name.split("/");
		const failure = job.error?.message?.split("\n")[0];
		return h("tr", {key: job.name},
			h("td", {class: "state"}, badge(STATES[job.state] || [job.state, "over"])),
			h("td", {class: "name"}, h("a", {href: `#/${job.name.split("/").map(encodeURIComponent).join("/")}`}, job.displayName),
				kind === KINDS[1] && h("span", {class: "tag"}, "tuning"),
				job.state === "JOB_STATE_FAILED" && failure && h("div", {class: "reason"}, failure)),
			h("td", {class: "place"}, project === "local" ? "command line" : `${project} / ${place}`),
			h("td", {class: "time"}, h("time", {datetime: job.createTime, title: moment(job.createTime)}, ago(job.createTime))),
			h("td", {class: "took"}, lasted(job)));
	}

	renderTable() {
		if (!this.jobs.length) {
			return this.state || this.search
				? h("p", {class: "empty"}, "No job is like that.")
				: h("div", {class: "empty"}, h("p", {}, "There are no jobs yet."),
					h("p", {}, "Make one with ", h("code", {}, "summand custom-jobs create"), " or with gcloud."));
		}
		return h("table", {class: "jobs"},
			h("caption", {class: "visually-hidden"}, "Jobs, the newest first"),
			h("thead", {}, h("tr", {}, ["State", "Job", "Project", "Created", "Ran for"].map((text) => h("th", {scope: "col"}, text)))),
			h("tbody", {}, this.jobs.map((job) => this.renderRow(job))));
	}

	render() {
		return [
			h("div", {class: "tools"},
				h("h1", {}, "Jobs"),
				h("div", {class: "chips", role: "group", "aria-label": "Which jobs"}, FILTERS.map(([name, text]) =>
					h("button", {type: "button", class: "chip", "aria-pressed": String(name === this.state), onclick: () => this.go(name, this.search)}, text))),
				h("input", {
					type: "search", "data-search": true, placeholder: "Find by name   /", "aria-label": "Find jobs by name", value: this.search,
					oninput: (event) => {
						clearTimeout(this.typing);
						this.typing = setTimeout((text) => this.go(this.state, text), 200, event.target.value);
					},
				})),
			this.renderTable(),
			this.hasMore && h("p", {class: "more"}, h("button", {
				type: "button",
				onclick: async () => {
					this.wanted += PAGE;
					await this.load();
					this.draw();
				},
			}, "Show older jobs")),
		];
	}
}
