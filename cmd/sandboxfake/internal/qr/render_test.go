package qr

import (
	"encoding/xml"
	"fmt"
	"image"
	"image/color"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestCode_SVG(t *testing.T) {
	t.Parallel()
	const text = `https://sandbox.example/?a=1&b="<script>"`
	code := encode(t, text)

	svg := code.SVG()

	if got := rasterize(t, svg, 1); !slices.Equal(got.Pix, pixels(code)) {
		t.Error("SVG differs from the code")
	}
	if title := parseSVG(t, svg).Title; title != "QR code: "+text {
		t.Errorf("title = %q, want the text", title)
	}
	if strings.Contains(string(svg), "<script") || strings.Contains(string(svg), "style") {
		t.Error("SVG contains markup of the text, or a style, which a content security policy blocks")
	}
}

func TestCode_Terminal(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"x", strings.Repeat("x", 300)} {
		code := encode(t, text)

		got := readTerminal(t, code.Terminal())

		if !slices.Equal(got, pixels(code)) {
			t.Error("terminal output differs from the code")
		}
	}
}

func TestCode_Structure(t *testing.T) {
	t.Parallel()
	for version := 1; version <= maxVersion; version++ {
		c := draw(version, nil, 0)
		last := c.size - 1
		finder := []string{"1111111", "1000001", "1011101", "1011101", "1011101", "1000001", "1111111"}
		for _, corner := range [][2]int{{0, 0}, {last - 6, 0}, {0, last - 6}} {
			for dy, row := range finder {
				for dx, module := range row {
					if x, y := corner[0]+dx, corner[1]+dy; c.isDark(x, y) != (module == '1') {
						t.Errorf("version %d: finder pattern is wrong at %d, %d", version, x, y)
					}
				}
			}
		}
		for i := range 8 { // separators
			for _, p := range [][2]int{{7, i}, {i, 7}, {last - 7, i}, {last - i, 7}, {7, last - i}, {i, last - 7}} {
				if c.isDark(p[0], p[1]) || !c.reserved[p[1]*c.size+p[0]] {
					t.Errorf("version %d: separator is wrong at %v", version, p)
				}
			}
		}
		for i := 8; i < c.size-8; i++ {
			if c.isDark(i, 6) != (i%2 == 0) || c.isDark(6, i) != (i%2 == 0) {
				t.Errorf("version %d: timing pattern is wrong at %d", version, i)
			}
		}
		if !c.isDark(8, 4*version+9) {
			t.Errorf("version %d: the dark module is light", version)
		}
	}
}

// TestCode_Penalty rates an empty code by hand: 42 lines of 21 modules, 400 blocks, no dark module.
func TestCode_Penalty(t *testing.T) {
	t.Parallel()
	c := &Code{size: 21, dark: make([]bool, 21*21)}

	got := c.penalty()

	if want := 42*(3+16) + 400*3 + 100; got != want {
		t.Errorf("penalty = %d, want %d", got, want)
	}
}

func TestEncode_LowestPenalty(t *testing.T) {
	t.Parallel()
	const text = "https://sandbox.example/_sandbox/open/check"

	code := encode(t, text)

	for mask := range 8 {
		other := draw(code.version, interleave(code.version, encodeData(code.version, text)), mask)
		if other.penalty() < code.penalty() {
			t.Errorf("Encode uses mask %d with penalty %d, want mask %d with %d", code.mask, code.penalty(), mask, other.penalty())
		}
	}
}

func TestLinePenalty_Patterns(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		line string
		want int
	}{
		{"0101010101", 0},
		{"0000100001", 0},
		{"00000101", 3},
		{"1111111", 5},
		{"0100000111111", 3 + 4},
		{"10111010000", 40},
		{"00001011101", 40},
		{"000010111010000", 80},
		{"1011101000101", 0},
	} {
		var line []bool
		for _, module := range row.line {
			line = append(line, module == '1')
		}
		if got := linePenalty(line); got != row.want {
			t.Errorf("penalty of %s = %d, want %d", row.line, got, row.want)
		}
	}
}

func encode(t *testing.T, text string) *Code {
	t.Helper()
	code, err := Encode(text)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// pixels returns a code with its quiet zone: 255 for light modules, 0 for dark ones.
func pixels(c *Code) []byte {
	side := c.size + 8
	all := make([]byte, side*side)
	for i := range all {
		if !c.isDark(i%side-4, i/side-4) {
			all[i] = 255
		}
	}
	return all
}

type svgImage struct {
	Title   string `xml:"title"`
	ViewBox string `xml:"viewBox,attr"`
	Rect    struct {
		Width int    `xml:"width,attr"`
		Fill  string `xml:"fill,attr"`
	} `xml:"rect"`
	Path struct {
		D    string `xml:"d,attr"`
		Fill string `xml:"fill,attr"`
	} `xml:"path"`
}

func parseSVG(t *testing.T, svg []byte) svgImage {
	t.Helper()
	var parsed svgImage
	if err := xml.Unmarshal(svg, &parsed); err != nil {
		t.Fatalf("SVG is not XML: %v", err)
	}
	return parsed
}

var svgRun = regexp.MustCompile(`^M(\d+) (\d+)h(\d+)v1h-(\d+)z`)

// rasterize draws an SVG with the given number of pixels per module.
func rasterize(t *testing.T, svg []byte, scale int) *image.Gray {
	t.Helper()
	parsed := parseSVG(t, svg)
	side := parsed.Rect.Width
	if parsed.ViewBox != fmt.Sprintf("0 0 %d %d", side, side) || parsed.Rect.Fill != "#fff" || parsed.Path.Fill != "#000" {
		t.Fatalf("SVG = %s, want black on white", svg)
	}
	img := image.NewGray(image.Rect(0, 0, side*scale, side*scale))
	for i := range img.Pix {
		img.Pix[i] = 255
	}
	for d := parsed.Path.D; d != ""; {
		m := svgRun.FindStringSubmatch(d)
		if m == nil || m[3] != m[4] {
			t.Fatalf("path continues with %.40q", d)
		}
		d = d[len(m[0]):]
		x, _ := strconv.Atoi(m[1])
		y, _ := strconv.Atoi(m[2])
		n, _ := strconv.Atoi(m[3])
		for py := y * scale; py < (y+1)*scale; py++ {
			for px := x * scale; px < (x+n)*scale; px++ {
				img.SetGray(px, py, color.Gray{})
			}
		}
	}
	return img
}

// readTerminal returns the pixels of terminal output. Each line must set and reset the colors.
func readTerminal(t *testing.T, text string) []byte {
	t.Helper()
	var all []byte
	side := 0
	for line := range strings.Lines(text) {
		line, ok := strings.CutPrefix(line, "\x1b[38;5;16;48;5;231m")
		line, end := strings.CutSuffix(line, "\x1b[0m\n")
		if !ok || !end {
			t.Fatalf("line = %q, want it to set and reset the colors", line)
		}
		var upper, lower []byte
		for _, r := range line {
			i := slices.Index([]rune("█▀▄ "), r)
			if i < 0 {
				t.Fatalf("unexpected character %q", r)
			}
			upper, lower = append(upper, []byte{0, 0, 255, 255}[i]), append(lower, []byte{0, 255, 0, 255}[i])
		}
		side = len(upper)
		all = append(append(all, upper...), lower...)
	}
	if n := len(all) - side*side; n != side {
		t.Fatalf("output has %d modules more than a square of %d, want one row", n, side)
	}
	// The number of rows is odd. The last line has a light row below them.
	return all[:side*side]
}
