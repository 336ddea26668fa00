package browser

import (
	"encoding/json"
	"slices"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// pageFaults is a script that returns the accessibility faults of the page, except names.
const pageFaults = `(async () => {
	await ` + settled + `;
	const found = [];
	if (document.documentElement.lang !== "en") found.push("the page has no lang attribute");
	if (document.querySelectorAll("h1").length !== 1) found.push("the page does not have exactly one h1");
	if (!document.title) found.push("the page has no title");
	if (document.documentElement.scrollWidth > innerWidth) {
		const wide = [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 0.5);
		found.push("the page scrolls horizontally: " + document.documentElement.scrollWidth + " > " + innerWidth + ": " + wide.slice(0, 4).map(describe));
	}
	const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
	for (const id of new Set(ids.filter((id, i) => ids.indexOf(id) !== i))) found.push("duplicate id " + id);
	for (const attribute of ["for", "aria-labelledby", "aria-describedby", "aria-controls"])
		for (const element of document.querySelectorAll("[" + attribute + "]"))
			for (const id of element.getAttribute(attribute).split(/\s+/))
				if (!document.getElementById(id)) found.push(describe(element) + " has " + attribute + "=" + id + ", which does not exist");

	function describe(element) {
		return element.tagName.toLowerCase() + (element.id ? "#" + element.id : "") + (element.dataset.action ? "[data-action=" + element.dataset.action + "]" : "") +
			(element.classList.length ? "." + [...element.classList].join(".") : "") + " " + JSON.stringify(element.textContent.trim().slice(0, 30));
	}
	const visible = element => element.checkVisibility({opacityProperty: true, visibilityProperty: true}) && element.getClientRects().length > 0;

	// A label is next to its field or directly above it.
	for (const label of document.querySelectorAll("label")) {
		const field = label.control, from = label.getBoundingClientRect(), to = field?.getBoundingClientRect();
		if (!field || !visible(field) || from.width <= 1 || label.contains(field) && to.top >= from.top - 1 && to.bottom <= from.bottom + 1) continue;
		const right = Math.max(to.left - from.right, from.left - to.right), down = Math.max(to.top - from.bottom, from.top - to.bottom);
		if (right > 10 || down > 10 || right > 0 && down > 0)
			found.push(describe(label) + " is separated from " + describe(field) + " by " + Math.round(right) + " and " + Math.round(down) + " pixels");
	}

	// WCAG 2.2, section 2.5.8 requires targets of 24 pixels, except links in a sentence.
	for (const control of document.querySelectorAll("button, input, select, textarea, summary, a[role=button]")) {
		const box = control.getBoundingClientRect();
		if (visible(control) && !control.closest("label") && (box.height < 23.5 || box.width < 23.5))
			found.push(describe(control) + " is " + Math.round(box.width) + " by " + Math.round(box.height) + " pixels");
	}

	// WCAG 2.2, section 1.4.3 requires a contrast of 4.5 for text, or 3 for large text.
	const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
	const paint = (color, alpha) => { canvas.globalAlpha = alpha; canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); };
	const pixel = () => [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
	const luminance = rgb => rgb.map(c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
		.reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
	const ancestors = element => element ? [...ancestors(element.parentElement), element] : [];
	const contrast = (element, color) => {
		paint(matchMedia("(prefers-color-scheme: dark)").matches ? "#121212" : "#fff", 1);
		let opacity = 1;
		for (const layer of ancestors(element)) {
			paint(getComputedStyle(layer).backgroundColor, 1);
			opacity *= getComputedStyle(layer).opacity;
		}
		const ground = luminance(pixel());
		paint(color, opacity);
		const [dark, light] = [ground, luminance(pixel())].sort((a, b) => a - b);
		return (light + 0.05) / (dark + 0.05);
	};
	const seen = new Map();
	for (const element of document.querySelectorAll("body *")) {
		const isField = element.matches("input, textarea, select");
		if (!isField && ![...element.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.textContent.trim())) continue;
		if (!visible(element) || element.matches(":disabled, [aria-disabled=true]") || element.closest(":disabled")) continue;
		const style = getComputedStyle(element);
		const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
		const colors = [style.color];
		if (element.placeholder) colors.push(getComputedStyle(element, "::placeholder").color);
		for (const color of colors) {
			const got = contrast(element, color);
			const text = element.tagName + "." + element.className + " has contrast " + got.toFixed(2) + " (" + color + ")";
			if (got < (large ? 3 : 4.5) && !seen.has(text)) { seen.set(text); found.push(text + ": " + describe(element)); }
		}
	}
	return found;
})()`

// controlRoles are the roles of the accessibility tree that a screen reader announces by their
// names.
var controlRoles = []string{"button", "link", "textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "switch", "spinbutton", "tab", "menuitem", "image", "dialog", "DisclosureTriangle"}

// checkAccessible reports accessibility faults of the page in its current state, at two sizes, in
// light and dark mode.
func (p *page) checkAccessible(state string) {
	p.t.Helper()
	for _, width := range []int64{1280, 360} {
		p.resize(width, 740)
		for _, scheme := range []string{"light", "dark"} {
			p.scheme(scheme)
			for _, fault := range evaluate[[]string](p, pageFaults) {
				p.t.Errorf("%s, %d pixels, %s: %s", state, width, scheme, fault)
			}
		}
		p.scheme("light")
	}
	p.resize(1280, 900)
	p.checkNames(state)
}

// checkNames reports controls without a name in the browser's accessibility tree.
func (p *page) checkNames(state string) {
	p.t.Helper()
	for _, node := range command(p, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		role := text(node.Role)
		if node.Ignored || !slices.Contains(controlRoles, role) {
			continue
		}
		if text(node.Name) == "" {
			p.t.Errorf("%s: a %s has no name (properties %v)", state, role, node.Description)
		}
	}
}

// text returns a string of the accessibility tree, or "".
func text(v *accessibility.Value) string {
	var s string
	if v != nil {
		json.Unmarshal(v.Value, &s)
	}
	return s
}

// focusState is a script that describes the focused element.
const focusState = `(() => {
	const element = document.activeElement;
	const style = getComputedStyle(element), box = element.getBoundingClientRect();
	const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1 || style.boxShadow !== "none";
	const state = {
		name: element.tagName.toLowerCase() + "#" + element.id + " " + (element.dataset.action || "") + " " + (element.textContent || element.name || "").trim().slice(0, 30),
		body: element === document.body,
		visited: window.__visited.has(element),
		outlined: outlined && element.matches(":focus-visible"),
		onScreen: box.bottom > 0 && box.top < innerHeight && box.width > 0,
	};
	window.__visited.add(element);
	return state;
})()`

// checkFocus follows the tab order once around the page and reports elements whose focus is not
// visible. It returns the number of elements.
func (p *page) checkFocus() (elements int) {
	p.t.Helper()
	evaluate[bool](p, `(window.__visited = new Set(), true)`)
	for range 300 {
		p.do(chromedp.KeyEvent(kb.Tab))
		focused := evaluate[struct {
			Name                              string
			Body, Visited, Outlined, OnScreen bool
		}](p, focusState)
		switch {
		case focused.Body: // between the last element and the first one
			continue
		case focused.Visited:
			return elements
		case !focused.Outlined:
			p.t.Errorf("the focus of %s is not visible", focused.Name)
		case !focused.OnScreen:
			p.t.Errorf("%s has the focus and is not on the screen", focused.Name)
		}
		elements++
	}
	p.t.Error("the tab order has more than 300 elements")
	return elements
}
