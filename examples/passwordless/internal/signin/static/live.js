// Updates the part of the page that shows the progress of the check. It is a live region, so that
// screen readers announce the change.
"use strict";

const interval = 1000; // milliseconds

// A request sent before the browser's new cookie arrives may be rejected; the next one is not.
let rejections = 3;

async function poll() {
	const now = document.getElementById("now");
	try {
		const response = await fetch("/check");
		const page = new DOMParser().parseFromString(await response.text(), "text/html");
		const next = page.getElementById("now");
		const retry = !response.ok && --rejections > 0;
		if (!retry && next.querySelector("h1").textContent !== now.querySelector("h1").textContent) {
			const focused = now.contains(document.activeElement);
			now.replaceChildren(...next.childNodes);
			document.title = page.title;
			if (focused) now.querySelector("h1").focus(); // the focused element was removed
		}
		if (!retry && !next.hasAttribute("data-live")) return;
	} catch {
		// The connection is lost, for example because Wi-Fi was turned off: poll again.
	}
	setTimeout(poll, interval);
}

setTimeout(poll, interval);
