package qr

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
)

// quietZone is the width in modules of the light border that readers require.
const quietZone = 4

// SVG returns the code as an SVG image with one unit per module, black on white. Its title contains
// the text. It has no script and no style.
func (c *Code) SVG() []byte {
	var b bytes.Buffer
	side := c.size + 2*quietZone
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[1]d" shape-rendering="crispEdges" role="img"><title>QR code: `, side)
	// Writing to a bytes.Buffer cannot fail.
	_ = xml.EscapeText(&b, []byte(c.text))
	fmt.Fprintf(&b, `</title><rect width="%[1]d" height="%[1]d" fill="#fff"/><path fill="#000" d="`, side)
	for y := range c.size {
		for x := 0; x < c.size; x++ {
			start := x
			for x < c.size && c.isDark(x, y) {
				x++
			}
			if x > start {
				fmt.Fprintf(&b, "M%d %dh%dv1h-%dz", start+quietZone, y+quietZone, x-start, x-start)
			}
		}
	}
	b.WriteString(`"/></svg>`)
	return b.Bytes()
}

// isDark reports whether a module is dark. Modules outside the code are light.
func (c *Code) isDark(x, y int) bool {
	return min(x, y) >= 0 && max(x, y) < c.size && c.dark[y*c.size+x]
}

// Terminal returns the code as text for a terminal that supports 256 colors: two modules per
// character, black on white on terminals with any color scheme.
func (c *Code) Terminal() string {
	var b strings.Builder
	for y := -quietZone; y < c.size+quietZone; y += 2 {
		// Unlike colors 0 to 15, color schemes do not change black (16) and white (231).
		b.WriteString("\x1b[38;5;16;48;5;231m")
		for x := -quietZone; x < c.size+quietZone; x++ {
			switch upper, lower := c.isDark(x, y), c.isDark(x, y+1); {
			case upper && lower:
				b.WriteRune('█')
			case upper:
				b.WriteRune('▀')
			case lower:
				b.WriteRune('▄')
			default:
				b.WriteRune(' ')
			}
		}
		b.WriteString("\x1b[0m\n")
	}
	return b.String()
}
