package qr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRemainder_StandardExample(t *testing.T) {
	t.Parallel()
	// ISO/IEC 18004, annex I: "01234567" as a version 1-M symbol.
	data := []byte{0x10, 0x20, 0x0C, 0x56, 0x61, 0x80, 0xEC, 0x11, 0xEC, 0x11, 0xEC, 0x11, 0xEC, 0x11, 0xEC, 0x11}

	got := remainder(data, generator(10))

	want := []byte{0xA5, 0x24, 0xD4, 0xC1, 0xED, 0x36, 0xC7, 0x87, 0x2C, 0x55}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("error correction codewords (-want +got):\n%s", diff)
	}
}

// TestFormatBits_Standard contains the row of level M in table C.1 of ISO/IEC 18004.
func TestFormatBits_Standard(t *testing.T) {
	t.Parallel()

	var got []string
	for mask := range 8 {
		got = append(got, fmt.Sprintf("%015b", formatBits(mask)))
	}

	want := []string{
		"101010000010010", "101000100100101", "101111001111100", "101101101001011",
		"100010111111001", "100000011001110", "100111110010111", "100101010100000",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("format information (-want +got):\n%s", diff)
	}
}

// TestVersionBits_Standard contains rows of table D.1 of ISO/IEC 18004.
func TestVersionBits_Standard(t *testing.T) {
	t.Parallel()
	for version, want := range map[int]int{7: 0x07C94, 8: 0x085BC, 21: 0x15683, 40: 0x28C69} {
		if got := versionBits(version); got != want {
			t.Errorf("version information of %d = %05X, want %05X", version, got, want)
		}
	}
}

// TestAlignment_Standard contains rows of table E.1 of ISO/IEC 18004.
func TestAlignment_Standard(t *testing.T) {
	t.Parallel()
	for version, want := range map[int][]int{
		1: nil, 2: {6, 18}, 7: {6, 22, 38}, 14: {6, 26, 46, 66}, 22: {6, 26, 50, 74, 98}, 32: {6, 34, 60, 86, 112, 138},
		36: {6, 24, 50, 76, 102, 128, 154}, 39: {6, 26, 54, 82, 110, 138, 166}, 40: {6, 30, 58, 86, 114, 142, 170},
	} {
		if diff := cmp.Diff(want, alignment(version)); diff != "" {
			t.Errorf("alignment patterns of version %d (-want +got):\n%s", version, diff)
		}
	}
}

// capacities are the bytes that versions 1 to 40 store with level M: table 7 of ISO/IEC 18004.
var capacities = []int{
	14, 26, 42, 62, 84, 106, 122, 152, 180, 213, 251, 287, 331, 362, 412, 450, 504, 560, 624, 666,
	711, 779, 857, 911, 997, 1059, 1125, 1190, 1264, 1370, 1452, 1538, 1628, 1722, 1809, 1911, 1989, 2099, 2213, 2331,
}

func TestEncode_Capacity(t *testing.T) {
	t.Parallel()
	for i, capacity := range capacities {
		t.Run(fmt.Sprintf("version %d", i+1), func(t *testing.T) {
			t.Parallel()

			full, err := fit(strings.Repeat("x", capacity))
			more, moreErr := fit(strings.Repeat("x", capacity+1))

			if full != i+1 || err != nil {
				t.Errorf("version for %d bytes = %d, %v, want %d", capacity, full, err, i+1)
			}
			if i+1 < maxVersion && (more != i+2 || moreErr != nil) {
				t.Errorf("version for %d bytes = %d, %v, want %d", capacity+1, more, moreErr, i+2)
			}
		})
	}
}

func TestEncode_Invalid(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"too long":          strings.Repeat("x", 2332),
		"too long with ECI": strings.Repeat("x", 2329) + "é",
		"not UTF-8":         "\xff",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			code, err := Encode(text)

			if err == nil || code != nil {
				t.Errorf("Encode returned a code: %t, error %v, want only an error", code != nil, err)
			}
		})
	}
}

// TestEncode_Readable reads codes of every version with a decoder that corrects no errors. A reader
// that corrects errors would hide mistakes.
func TestEncode_Readable(t *testing.T) {
	t.Parallel()
	for i, capacity := range capacities {
		for _, text := range []string{strings.Repeat("0123456789", 240)[:capacity], strings.Repeat("x", capacity-3) + "é"} {
			code := encode(t, text)
			if code.version != i+1 || code.size != 17+4*code.version {
				t.Errorf("%d bytes are in version %d with %d modules per side, want version %d", len(text), code.version, code.size, i+1)
			}
			if got := decode(t, code); got != text {
				t.Errorf("version %d contains %q, want %q", code.version, got, text)
			}
		}
	}
}

// decode reads a code as a reader does. It fails if any error correction codeword is wrong.
func decode(t *testing.T, c *Code) string {
	t.Helper()
	format := 0
	for i := range 8 { // the copy next to the upper right and lower left finder patterns
		format |= bit(c.isDark(c.size-1-i, 8)) << i
	}
	for i := 8; i < 15; i++ {
		format |= bit(c.isDark(8, c.size-15+i)) << i
	}
	mask := (format ^ 0x5412) >> 10
	if mask != c.mask {
		t.Fatalf("format information has mask %d, want %d", mask, c.mask)
	}
	// XOR with a code that has no codewords removes the mask.
	blank := draw(c.version, nil, mask)
	var stream []byte
	n, up := 0, true
	for x := c.size - 1; x > 0; x -= 2 {
		if x == 6 {
			x--
		}
		for i := range c.size {
			y := i
			if up {
				y = c.size - 1 - i
			}
			for _, column := range []int{x, x - 1} {
				if j := y*c.size + column; !c.reserved[j] {
					if n%8 == 0 {
						stream = append(stream, 0)
					}
					stream[n/8] |= byte(bit(c.dark[j] != blank.dark[j])) << (7 - n%8)
					n++
				}
			}
		}
		up = !up
	}
	if n != moduleCount(c.version) {
		t.Fatalf("version %d has %d modules for codewords, want %d", c.version, n, moduleCount(c.version))
	}
	return parse(t, joinBlocks(t, c.version, stream[:n/8]))
}

// joinBlocks returns the data codewords. The polynomial of each block must be zero at the powers of
// two, as that of every valid block.
func joinBlocks(t *testing.T, version int, stream []byte) []byte {
	t.Helper()
	count, data := blockCount[version], dataCodewords(version)
	blocks := make([][]byte, count)
	for i, b := range stream {
		block := i % count
		if rest := data % count; i >= data-rest && i < data {
			block = count - rest + i - (data - rest) // only the longer blocks have one more
		} else if i >= data {
			block = (i - data) % count
		}
		blocks[block] = append(blocks[block], b)
	}
	var joined []byte
	for _, block := range blocks {
		root := byte(1)
		for range blockCorrection[version] {
			var value byte
			for _, b := range block {
				value = multiply(value, root) ^ b
			}
			if value != 0 {
				t.Fatalf("a block of version %d has a wrong error correction", version)
			}
			root = multiply(root, 2)
		}
		joined = append(joined, block[:len(block)-blockCorrection[version]]...)
	}
	return joined
}

// parse returns the text of data codewords with one segment in byte mode.
func parse(t *testing.T, data []byte) string {
	t.Helper()
	var digits strings.Builder
	for _, b := range data {
		fmt.Fprintf(&digits, "%08b", b)
	}
	all, _ := strings.CutPrefix(digits.String(), "0111"+"00011010") // ECI 26
	all, ok := strings.CutPrefix(all, "0100")
	if !ok {
		t.Fatal("the code is not in byte mode")
	}
	width := 8
	if len(data) > dataCodewords(9) {
		width = 16
	}
	number := func(digits string) (n uint64) {
		if _, err := fmt.Sscanf(digits, "%b", &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	text := make([]byte, number(all[:width]))
	all = all[width:]
	for i := range text {
		text[i] = byte(number(all[8*i : 8*i+8]))
	}
	return string(text)
}

func bit(dark bool) int {
	if dark {
		return 1
	}
	return 0
}
