// Updates the part of the page that shows the progress of the check. It is a live region, so that a
// screen reader announces the change.
"use strict";

const pause = 1000;

// A request may cross the response with the browser's new cookie. Such a request is rejected; the
// next one is not.
let rejections = 3;

async function look() {
	const now = document.getElementById("now");
	try {
		const response = await fetch("/check");
		const page = new DOMParser().parseFromString(await response.text(), "text/html");
		const next = page.getElementById("now");
		const again = !response.ok && --rejections > 0;
		if (!again && next.querySelector("h1").textContent !== now.querySelector("h1").textContent) {
			const focused = now.contains(document.activeElement);
			now.replaceChildren(...next.childNodes);
			document.title = page.title;
			if (focused) now.querySelector("h1").focus(); // the element that had the focus is gone
		}
		if (!again && !next.hasAttribute("data-live")) return;
	} catch {
		// The connection is lost, which happens when Wi-Fi is turned off: look again.
	}
	setTimeout(look, pause);
}

setTimeout(look, pause);
