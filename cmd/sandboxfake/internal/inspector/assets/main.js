// Opens a session with the control token of the fragment, and shows the number of changes.
const status = document.getElementById("status");
const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token) {
	history.replaceState(null, "", location.pathname);
	await fetch("session", {
		method: "POST",
		headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
	});
}
const session = await fetch("session");
if (session.ok) {
	new EventSource("events").addEventListener("change", (event) => {
		status.textContent = `Revision ${JSON.parse(event.data).revision}`;
	});
} else {
	status.textContent = "Open the URL that the program prints.";
}
