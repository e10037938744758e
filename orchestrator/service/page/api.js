// Asks the service, with the token that was given to this tab, if it wants one.

const TOKEN = "summand-token";

export class Failure extends Error {
	constructor(status, message) {
		super(message);
		this.status = status;
	}
}

export function setToken(token) {
	sessionStorage.setItem(TOKEN, token);
}

function headers(body) {
	const token = sessionStorage.getItem(TOKEN);
	return {
		...(body === undefined ? {} : {"Content-Type": "application/json"}),
		...(token ? {Authorization: `Bearer ${token}`} : {}),
	};
}

async function send(method, path, body) {
	let answer;
	try {
		answer = await fetch(path, {
			method,
			headers: headers(body),
			body: body === undefined ? undefined : JSON.stringify(body),
			credentials: "same-origin",
			redirect: "error",
		});
	} catch {
		throw new Failure(0, "The service does not answer.");
	}
	if (!answer.ok) {
		const document = await answer.json().catch(() => null);
		throw new Failure(answer.status, document?.error?.message || `The service answered ${answer.status}.`);
	}
	return answer;
}

export async function ask(method, path, body) {
	return (await send(method, path, body)).json();
}

export async function fetchBlob(path) {
	return (await send("GET", path)).blob();
}

export function pathOf(job) {
	return "/v1/" + job.split("/").map(encodeURIComponent).join("/");
}

// Texts in a filter are in quotes.
export function quote(text) {
	return '"' + text.replace(/["\\]/g, "\\$&") + '"';
}
