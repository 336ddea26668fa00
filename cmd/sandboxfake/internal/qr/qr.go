// Package qr encodes text as QR codes (ISO/IEC 18004, model 2) and renders them as SVG and for
// terminals. It uses byte mode and error correction level M, which restores 15 % of a code.
package qr

import (
	"fmt"
	"unicode/utf8"
)

// Code is a QR code: a square of light and dark modules. A Code is safe for concurrent use.
type Code struct {
	text     string
	version  int    // 1 to 40
	mask     int    // 0 to 7
	size     int    // modules per side, without the quiet zone
	dark     []bool // by row
	reserved []bool // modules of function patterns, which contain no codewords
}

const maxVersion = 40

// Error correction codewords per block, and number of blocks, of versions 1 to 40 with level M.
var (
	blockCorrection = [maxVersion + 1]int{0,
		10, 16, 26, 18, 24, 16, 18, 22, 22, 26, 30, 22, 22, 24, 24, 28, 28, 26, 26, 26,
		26, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28}
	blockCount = [maxVersion + 1]int{0,
		1, 1, 1, 2, 2, 4, 4, 4, 5, 5, 5, 8, 9, 9, 10, 10, 11, 13, 14, 16,
		17, 17, 18, 20, 21, 23, 25, 26, 28, 29, 31, 33, 35, 37, 38, 40, 43, 45, 47, 49}
)

// Encode returns the smallest QR code for a text of at most 2,331 bytes. The text must be valid
// UTF-8. If it has characters other than ASCII, the code declares its encoding, which takes one
// byte.
func Encode(text string) (*Code, error) {
	version, err := fit(text)
	if err != nil {
		return nil, err
	}
	codewords := interleave(version, encodeData(version, text))
	best, lowest := (*Code)(nil), 0
	for mask := range 8 {
		c := draw(version, codewords, mask)
		if p := c.penalty(); best == nil || p < lowest {
			best, lowest = c, p
		}
	}
	best.text = text
	return best, nil
}

// fit returns the smallest version whose data codewords can store the text.
func fit(text string) (int, error) {
	if !utf8.ValidString(text) {
		return 0, fmt.Errorf("qr: text is not valid UTF-8")
	}
	for version := 1; version <= maxVersion; version++ {
		header := 4 + countBits(version)
		if !isASCII(text) {
			header += len(declareUTF8)
		}
		if header+8*len(text) <= 8*dataCodewords(version) {
			return version, nil
		}
	}
	return 0, fmt.Errorf("qr: text of %d bytes is too long for a QR code", len(text))
}

// declareUTF8 is an ECI header with assignment 26, UTF-8. Without it, readers guess the encoding.
const declareUTF8 = "011100011010"

const byteMode = 0b0100

// countBits returns the length of the character count in byte mode.
func countBits(version int) int {
	if version < 10 {
		return 8
	}
	return 16
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// moduleCount returns the number of modules that store codewords. Up to seven of them remain.
func moduleCount(version int) int {
	n := (16*version+128)*version + 64
	if version >= 2 {
		a := version/7 + 2
		n -= (25*a-10)*a - 55
	}
	if version >= 7 {
		n -= 36
	}
	return n
}

func dataCodewords(version int) int {
	return moduleCount(version)/8 - blockCorrection[version]*blockCount[version]
}

// bits is a sequence of bits, most significant first.
type bits struct {
	bytes []byte
	n     int
}

func (b *bits) append(value, length int) {
	for i := length - 1; i >= 0; i-- {
		if b.n%8 == 0 {
			b.bytes = append(b.bytes, 0)
		}
		b.bytes[b.n/8] |= byte(value>>i&1) << (7 - b.n%8)
		b.n++
	}
}

// encodeData returns the data codewords of a text that fits into the version.
func encodeData(version int, text string) []byte {
	var b bits
	if !isASCII(text) {
		for _, bit := range declareUTF8 {
			b.append(int(bit-'0'), 1)
		}
	}
	b.append(byteMode, 4)
	b.append(len(text), countBits(version))
	for i := range len(text) {
		b.append(int(text[i]), 8)
	}
	capacity := dataCodewords(version)
	b.append(0, min(4, 8*capacity-b.n)) // the terminator
	for pad := byte(0xEC); len(b.bytes) < capacity; pad ^= 0xEC ^ 0x11 {
		b.bytes = append(b.bytes, pad)
	}
	return b.bytes
}

// interleave splits the data into blocks, adds error correction to each, and returns the codewords
// in the order of placement: the first of each block, the second of each block, and so on.
func interleave(version int, data []byte) []byte {
	count, divisor := blockCount[version], generator(blockCorrection[version])
	short, longer := len(data)/count, len(data)%count
	blocks, corrections := make([][]byte, count), make([][]byte, count)
	for i := range count {
		n := short
		if i >= count-longer {
			n++ // the last blocks are one longer
		}
		blocks[i], data = data[:n], data[n:]
		corrections[i] = remainder(blocks[i], divisor)
	}
	var codewords []byte
	for _, columns := range [][][]byte{blocks, corrections} {
		for i := range len(columns[count-1]) {
			for _, column := range columns {
				if i < len(column) {
					codewords = append(codewords, column[i])
				}
			}
		}
	}
	return codewords
}

// generator returns the coefficients of the Reed-Solomon generator polynomial, without the leading
// one: the product of x - 2^i for i below degree.
func generator(degree int) []byte {
	g := make([]byte, degree)
	g[degree-1] = 1
	root := byte(1)
	for range degree {
		for j := range degree {
			g[j] = multiply(g[j], root)
			if j+1 < degree {
				g[j] ^= g[j+1]
			}
		}
		root = multiply(root, 2)
	}
	return g
}

// remainder returns the error correction codewords of a block.
func remainder(block, divisor []byte) []byte {
	r := make([]byte, len(divisor))
	for _, b := range block {
		factor := b ^ r[0]
		r = append(r[1:], 0)
		for i, g := range divisor {
			r[i] ^= multiply(g, factor)
		}
	}
	return r
}

// multiply returns the product in GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1.
func multiply(a, b byte) byte {
	product := 0
	for i := 7; i >= 0; i-- {
		product = product<<1 ^ product>>7*0x11D
		product ^= int(b>>i&1) * int(a)
	}
	return byte(product)
}
