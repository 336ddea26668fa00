package passwordless

import (
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// accessibilityFaults is a script that returns the accessibility faults of the page.
const accessibilityFaults = `(() => {
	const found = [];
	if (document.documentElement.lang !== "en") found.push("the page has no lang attribute");
	if (document.querySelectorAll("h1").length !== 1) found.push("the page does not have exactly one h1");
	if (document.documentElement.scrollWidth > innerWidth) found.push("the page scrolls horizontally");
	for (const input of document.querySelectorAll("input"))
		if (!input.labels.length) found.push("an input has no label");
	for (const control of document.querySelectorAll("input, button, a.button"))
		if (control.getBoundingClientRect().height < 44) found.push(control.tagName + " is less than 44 pixels high");

	// WCAG 2.2, section 1.4.3 requires a contrast of 4.5 for text.
	const channels = color => color.match(/[\d.]+/g).map(Number);
	const luminance = color => channels(color).slice(0, 3)
		.map(c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
		.reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
	const ground = element => {
		const color = getComputedStyle(element).backgroundColor;
		return channels(color)[3] === 0 && element.parentElement ? ground(element.parentElement) : color;
	};
	for (const element of document.querySelectorAll("body *")) {
		if (![...element.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.textContent.trim())) continue;
		if (getComputedStyle(element).display === "none") continue;
		const [light, dark] = [luminance(getComputedStyle(element).color), luminance(ground(element))].sort((a, b) => b - a);
		const contrast = (light + 0.05) / (dark + 0.05);
		if (contrast < 4.5) found.push(element.tagName + " has contrast " + contrast.toFixed(2));
	}
	return found;
})()`

// checkAccessible reports accessibility faults on a narrow screen, in light and dark mode.
func (p *phone) checkAccessible() {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(320, 568, chromedp.EmulateMobile))
	for _, scheme := range []string{"light", "dark"} {
		command(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		for _, fault := range evaluate[[]string](p, accessibilityFaults) {
			p.t.Errorf("%s, in %s: %s", p.url(), scheme, fault)
		}
	}
}
