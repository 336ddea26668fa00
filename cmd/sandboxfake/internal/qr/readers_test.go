package qr

import (
	"bytes"
	"fmt"
	"image/png"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/internal/tooltest"
)

// TestZBar_Texts reads codes with zbar, an independent decoder.
func TestZBar_Texts(t *testing.T) {
	t.Parallel()
	tooltest.Require(t, tooltest.Installed("zbarimg"), "run script/setup qr")
	texts := []string{
		"x", "https://127.0.0.1:40123/_sandbox/open/0190e3c2-8d2c-7d39-a5b1-6f1d2e3c4b5a", "0123456789", "A B\tC\nD",
		"https://sandbox.example/?a=1&b=<é>", "Zoë, 電話, 🔑 и ключ",
	}
	for _, version := range []int{1, 2, 6, 7, 9, 10, 14, 20, 21, 26, 27, 34, 40} {
		texts = append(texts, randomText(capacities[version-1]))
	}
	for _, text := range texts {
		t.Run(fmt.Sprintf("%d bytes", len(text)), func(t *testing.T) {
			t.Parallel()

			got := readZBar(t, encode(t, text))

			if got != text {
				t.Errorf("zbar read %q, want %q", got, text)
			}
		})
	}
}

func TestZBar_Masks(t *testing.T) {
	t.Parallel()
	tooltest.Require(t, tooltest.Installed("zbarimg"), "run script/setup qr")
	const text = "https://sandbox.example/_sandbox/open/check"
	for _, version := range []int{4, 10} {
		codewords := interleave(version, encodeData(version, text))
		for mask := range 8 {
			t.Run(fmt.Sprintf("version %d mask %d", version, mask), func(t *testing.T) {
				t.Parallel()

				got := readZBar(t, draw(version, codewords, mask))

				if got != text {
					t.Errorf("zbar read %q, want %q", got, text)
				}
			})
		}
	}
}

// TestQREncode_Versions compares codes of each version with those of qrencode, an independent
// encoder, module by module. Readers would correct a few wrong modules.
func TestQREncode_Versions(t *testing.T) {
	t.Parallel()
	tooltest.Require(t, tooltest.Installed("qrencode"), "run script/setup qr")
	for i, capacity := range capacities {
		lengths := []int{capacity}
		if i%8 == 0 {
			lengths = append(lengths, capacity/2)
		}
		for _, length := range lengths {
			t.Run(fmt.Sprintf("version %d with %d bytes", i+1, length), func(t *testing.T) {
				t.Parallel()
				text := randomText(length)

				cmd := exec.CommandContext(t.Context(), "qrencode", "-8", "-l", "M", "-v", strconv.Itoa(i+1), "-m", "0", "-t", "ASCII", "-o", "-", "--", text)
				output, err := cmd.Output()

				if err != nil {
					t.Fatal(err)
				}
				// The encoders may rate the masks differently.
				var ours []string
				for mask := range 8 {
					ours = append(ours, printASCII(draw(i+1, interleave(i+1, encodeData(i+1, text)), mask)))
				}
				if !slices.Contains(ours, string(output)) {
					t.Error("the code of qrencode differs from the code with each mask")
				}
			})
		}
	}
}

// printASCII prints a code as qrencode does.
func printASCII(c *Code) string {
	var b strings.Builder
	for y := range c.size {
		for x := range c.size {
			b.WriteString([]string{"  ", "##"}[bit(c.isDark(x, y))])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// randomText returns n printable characters, which depend only on n.
func randomText(n int) string {
	random := rand.New(rand.NewPCG(uint64(n), 1))
	text := make([]byte, n)
	for i := range text {
		text[i] = byte('!' + random.IntN('~'-'!'+1))
	}
	return string(text)
}

// readZBar returns the text that zbar reads from the SVG of a code.
func readZBar(t *testing.T, c *Code) string {
	t.Helper()
	var image bytes.Buffer
	if err := png.Encode(&image, rasterize(t, c.SVG(), 4)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "zbarimg", "--quiet", "--nodbus", "--raw", "--set", "disable", "--set", "qrcode.enable", "-")
	cmd.Stdin = &image
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("zbarimg: %v: %s", err, output)
	}
	return strings.TrimSuffix(string(output), "\n")
}
