// Keeps the part of the page that says how far the check is up to date. It is a live region, so that a screen reader tells of a change.
"use strict";

const pause = 1000;

async function look() {
	const now = document.getElementById("now");
	try {
		const answer = await fetch("/check");
		const page = new DOMParser().parseFromString(await answer.text(), "text/html");
		const next = page.getElementById("now");
		if (next.querySelector("h1").textContent !== now.querySelector("h1").textContent) {
			const focused = now.contains(document.activeElement);
			now.replaceChildren(...next.childNodes);
			document.title = page.title;
			if (focused) now.querySelector("h1").focus(); // what had the focus is gone
		}
		if (!next.hasAttribute("data-live")) return;
	} catch {
		// The connection is away, which happens when Wi-Fi is turned off: look again.
	}
	setTimeout(look, pause);
}

setTimeout(look, pause);
