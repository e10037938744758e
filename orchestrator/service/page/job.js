// One job: what it is, its replicas, lines, plan, trials, reduction servers and description.

import {ask, pathOf} from "./api.js";
import {renderArtifacts} from "./artifacts.js";
import {badge} from "./badge.js";
import {confirmThat} from "./dialog.js";
import {announce, h} from "./dom.js";
import {Log} from "./log.js";
import {progressLine, percent, renderProgress} from "./progress.js";
import {Servers} from "./servers.js";
import {REPLICA_STATES, STATES, ago, hasEnded, lasted, moment} from "./text.js";
import {renderLeftOut, renderPreemption} from "./room.js";
import {renderTrials} from "./trials.js";

const LIVE_MS = 1000;
const ENDED_MS = 5000;
const SHOWN_MAX = 500; // replicas
const POOLS = ["Chief", "Workers", "Servers", "Evaluators"];

export class JobView {
	static keyOf({segments}) {
		return segments.slice(0, 6).join("/");
	}

	constructor(address, draw) {
		this.draw = draw;
		this.name = address.segments.slice(0, 6).join("/");
		this.isTuning = address.segments[4] === "hyperparameterTuningJobs";
		this.replicas = [];
		this.servers = new Servers();
		this.log = new Log(this.name, draw);
		this.setAddress(address);
	}

	setAddress({segments, query}) {
		this.tab = segments[6] || (this.isTuning ? "trials" : "replicas");
		this.query = query;
		this.log.setFilter(query.get("replica") || "", query.get("q") || "", query.get("severe") === "1");
	}

	close() {
		clearTimeout(this.log.typing);
	}

	get title() {
		return this.job?.displayName;
	}

	get period() {
		return this.job && hasEnded(this.job.state) ? ENDED_MS : LIVE_MS;
	}

	get spec() {
		return this.job.jobSpec || this.job.trialJobSpec || {};
	}

	async load() {
		const path = pathOf(this.name);
		const [job, record] = await Promise.all([ask("GET", path), ask("GET", `${path}/replicas`)]);
		if (this.job && this.job.state !== job.state) {
			announce(STATES[job.state]?.[0] || job.state);
		}
		this.job = job;
		this.replicas = record.replicas;
		this.progress = record.progress;
		this.preemption = record.preemption;
		this.leftOut = record.hostsLeftOut;
		if (record.updateTime) {
			this.servers.take(record.replicas, record.updateTime);
		}
		if (this.tab === "logs") {
			await this.log.load();
		} else if (this.tab === "files") {
			this.artifacts = await ask("GET", `${path}/artifacts`);
		} else if (this.tab === "plan" && !this.plan) {
			this.plan = (await ask("GET", `${path}/plan`)).text;
		}
	}

	link(tab, query) {
		const words = new URLSearchParams(query || {});
		return `#/${this.name.split("/").map(encodeURIComponent).join("/")}/${tab}${words.size ? `?${words}` : ""}`;
	}

	setQuery(change) {
		const query = new URLSearchParams(this.query);
		for (const [key, value] of Object.entries(change)) {
			if (value) {
				query.set(key, value);
			} else {
				query.delete(key);
			}
		}
		location.replace(this.link(this.tab, query));
	}

	askToCancel() {
		confirmThat({
			title: "Cancel this job?", text: `“${this.job.displayName}” ends, and what it has not saved is lost.`, yes: "Cancel the job", no: "Let it run",
			act: async () => {
				try {
					await ask("POST", `${pathOf(this.name)}:cancel`, {});
					announce("The job is asked to end.");
					await this.load();
				} catch (failure) {
					announce(failure.message);
				}
				this.draw();
			},
		});
	}

	get tabs() {
		const hasServers = this.replicas.some((replica) => replica.role === "reduction server");
		return [this.isTuning ? ["trials", "Trials"] : ["replicas", "Replicas"], ["logs", "Logs"], hasServers && ["servers", "Reduction servers"],
			["plan", "Plan"], ["files", "Files"], ["description", "Description"]].filter(Boolean);
	}

	renderHead() {
		const {job} = this;
		const [, project, , place] = this.name.split("/");
		const facts = [
			["Created", h("time", {datetime: job.createTime, title: moment(job.createTime)}, ago(job.createTime))],
			job.startTime && [hasEnded(job.state) ? "Ran for" : "Runs for", lasted(job)],
			["Project", project === "local" ? "command line" : `${project} / ${place}`],
			["Id", h("code", {}, this.name.split("/").pop())],
		].filter(Boolean);
		return h("div", {class: "head", key: "head"},
			h("nav", {"aria-label": "Where you are"}, h("a", {href: "#/"}, "Jobs")),
			h("div", {class: "title"}, h("h1", {}, job.displayName), badge(STATES[job.state] || [job.state, "over"]),
				!hasEnded(job.state) && h("button", {type: "button", class: "danger", id: "cancel", onclick: () => this.askToCancel()}, "Cancel …")),
			h("dl", {class: "facts"}, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
			this.renderLabels(),
			renderPreemption(this.preemption, this.job),
			!hasEnded(job.state) && renderLeftOut(this.leftOut),
			this.progress && renderProgress(this.progress, !hasEnded(job.state)),
			job.error?.message && h("pre", {class: `problem ${job.state === "JOB_STATE_CANCELLED" ? "mild" : ""}`, tabindex: "0"}, job.error.message));
	}

	renderLabels() {
		const labels = Object.entries(this.job.labels || {});
		return labels.length > 0 && h("p", {class: "labels"}, labels.map(([key, value]) => h("span", {class: "tag"}, `${key}: ${value}`)));
	}

	renderTabs() {
		return h("nav", {class: "tabs", key: "tabs", "aria-label": "Views of the job"},
			this.tabs.map(([tab, text]) => h("a", {href: this.link(tab), "aria-current": tab === this.tab ? "page" : null, key: tab}, text)));
	}

	renderReplica(replica) {
		const [text, tone] = REPLICA_STATES[replica.state] || [replica.state, "over"];
		const node = replica.name.split(".")[0];
		const hasTerminal = this.job.webAccessUris?.[node] && (node === replica.name || replica.name.endsWith(".0"));
		return h("li", {key: replica.name}, h("a", {class: `replica ${tone}`, href: this.link("logs", {replica: node})},
			h("span", {class: "replica-name"}, replica.name),
			badge([text, tone]),
			replica.progress && [h("span", {class: "status"}, percent(replica.progress)), progressLine(replica.progress)],
			(replica.end || replica.status) && h("span", {class: "status"}, replica.end || replica.status),
			replica.restarts > 0 && h("span", {class: "status"}, replica.restarts === 1 ? "started again once" : `started again ${replica.restarts} times`),
			replica.lastLoss && h("span", {class: "status"}, `lost: ${replica.lastLoss}`)),
			hasTerminal && h("a", {class: "shell", href: this.link("terminal") + `/${node}`, "aria-label": `Terminal in ${node}`}, "Terminal"));
	}

	renderPool(pool, number) {
		const replicas = this.replicas.filter((replica) => replica.name.startsWith(`workerpool${number}-`));
		const machine = pool.machineSpec?.machineType;
		const role = replicas[0]?.role;
		if (!pool.replicaCount && !replicas.length) {
			return null;
		}
		return h("section", {class: "pool", key: number, "aria-labelledby": `pool-${number}`},
			h("h2", {id: `pool-${number}`}, role ? `${role[0].toUpperCase()}${role.slice(1)}${replicas.length > 1 ? "s" : ""}` : POOLS[number] || "Pool",
				h("small", {}, [`pool ${number}`, `${replicas.length || pool.replicaCount} ×`, machine].filter(Boolean).join(" · "))),
			replicas.length
				? h("ul", {class: "replicas"}, replicas.slice(0, SHOWN_MAX).map((replica) => this.renderReplica(replica)))
				: h("p", {class: "empty"}, this.job.state === "JOB_STATE_QUEUED" ? "Waits for room." : "Not begun."),
			replicas.length > SHOWN_MAX && h("p", {class: "more"}, `… and ${replicas.length - SHOWN_MAX} more`));
	}

	renderReplicas() {
		const pools = this.spec.workerPoolSpecs || [];
		return h("div", {key: "replicas"}, pools.map((pool, number) => this.renderPool(pool, number)));
	}

	renderTab() {
		switch (this.tab) {
		case "logs": {
			const names = [...new Set(this.replicas.map((replica) => replica.name.split(".")[0]))];
			return this.log.render(this.job, names, (change) => this.setQuery(change));
		}
		case "servers":
			return this.servers.render(this.replicas);
		case "trials":
			return renderTrials(this.job, (trial, node) => this.link("terminal") + `/${node}/${trial}`);
		case "files":
			return renderArtifacts(this.name, this.artifacts);
		case "plan":
			return this.plan
				? h("pre", {class: "plan", key: "plan", tabindex: "0", role: "region", "aria-label": "Plan"}, this.plan)
				: h("p", {class: "empty", key: "plan"}, "The plan is made when the job begins.");
		case "description":
			return h("pre", {class: "plan", key: "description", tabindex: "0", role: "region", "aria-label": "Description"}, JSON.stringify(this.job, null, 2));
		default:
			return this.renderReplicas();
		}
	}

	render() {
		return [this.renderHead(), this.renderTabs(), this.renderTab()];
	}

	// On a phone the tabs may be wider than the screen.
	afterRender() {
		if (this.tabShown !== this.tab) {
			this.tabShown = this.tab;
			document.querySelector(".tabs [aria-current]")?.scrollIntoView({block: "nearest", inline: "nearest"});
		}
		if (this.tab === "logs") {
			this.log.mount(document.getElementById("content"));
		}
	}
}
