package qr

import "slices"

// draw returns the code with the function patterns of a version, its codewords, and a mask.
func draw(version int, codewords []byte, mask int) *Code {
	size := 17 + 4*version
	c := &Code{version: version, mask: mask, size: size, dark: make([]bool, size*size), reserved: make([]bool, size*size)}
	c.drawTiming()
	c.drawFinders()
	c.drawAlignment()
	c.drawFormat()
	c.drawVersion()
	c.drawCodewords(codewords)
	return c
}

// set sets a module of a function pattern.
func (c *Code) set(x, y int, dark bool) {
	c.dark[y*c.size+x], c.reserved[y*c.size+x] = dark, true
}

func (c *Code) drawTiming() {
	for i := range c.size {
		c.set(6, i, i%2 == 0)
		c.set(i, 6, i%2 == 0)
	}
}

// drawFinders draws the finder patterns of three corners with their separators.
func (c *Code) drawFinders() {
	last := c.size - 1
	for _, center := range [][2]int{{3, 3}, {last - 3, 3}, {3, last - 3}} {
		for dy := -4; dy <= 4; dy++ {
			for dx := -4; dx <= 4; dx++ {
				x, y, distance := center[0]+dx, center[1]+dy, max(dx, -dx, dy, -dy)
				if min(x, y) >= 0 && max(x, y) <= last {
					c.set(x, y, distance != 2 && distance != 4)
				}
			}
		}
	}
}

func (c *Code) drawAlignment() {
	positions := alignment(c.version)
	for i, y := range positions {
		for j, x := range positions {
			if last := len(positions) - 1; i+j == 0 || i+j == last && i*j == 0 {
				continue // three corners contain finder patterns
			}
			for dy := -2; dy <= 2; dy++ {
				for dx := -2; dx <= 2; dx++ {
					c.set(x+dx, y+dy, max(dx, -dx, dy, -dy) != 1)
				}
			}
		}
	}
}

// alignment returns the coordinates of the centers of alignment patterns.
func alignment(version int) []int {
	if version == 1 {
		return nil
	}
	n := version/7 + 2
	step := (version*8 + n*3 + 5) / (n*4 - 4) * 2
	positions := []int{6}
	for i := n - 2; i >= 0; i-- {
		positions = append(positions, 17+4*version-7-i*step)
	}
	return positions
}

// withRemainder appends to value the bits of its remainder modulo a BCH generator polynomial.
func withRemainder(value, polynomial, length int) int {
	r := value
	for range length {
		r = r<<1 ^ r>>(length-1)*polynomial
	}
	return value<<length | r
}

// formatBits returns the format information of level M, whose indicator is 00, and a mask.
func formatBits(mask int) int { return withRemainder(mask, 0x537, 10) ^ 0x5412 }

// drawFormat draws both copies of the format information, and the module that is always dark.
func (c *Code) drawFormat() {
	format := formatBits(c.mask)
	for i := range 15 {
		dark := format>>i&1 == 1
		switch {
		case i < 6:
			c.set(8, i, dark)
		case i < 8:
			c.set(8, i+1, dark)
		case i == 8:
			c.set(7, 8, dark)
		default:
			c.set(14-i, 8, dark)
		}
		if i < 8 {
			c.set(c.size-1-i, 8, dark)
		} else {
			c.set(8, c.size-15+i, dark)
		}
	}
	c.set(8, c.size-8, true)
}

func versionBits(version int) int { return withRemainder(version, 0x1F25, 12) }

// drawVersion draws both copies of the version information, which versions from 7 on have.
func (c *Code) drawVersion() {
	if c.version < 7 {
		return
	}
	for i := range 18 {
		dark := versionBits(c.version)>>i&1 == 1
		c.set(c.size-11+i%3, i/3, dark)
		c.set(i/3, c.size-11+i%3, dark)
	}
}

// drawCodewords draws the masked codewords in columns of two modules, from right to left and
// alternately upward and downward. The mask also applies to the remaining modules.
func (c *Code) drawCodewords(codewords []byte) {
	i := 0
	for right := c.size - 1; right > 0; right -= 2 {
		if right == 6 {
			right-- // the vertical timing pattern
		}
		for row := range c.size {
			y := row
			if (right+1)&2 == 0 {
				y = c.size - 1 - row
			}
			for x := right; x >= right-1; x-- {
				if c.reserved[y*c.size+x] {
					continue
				}
				bit := i < 8*len(codewords) && codewords[i/8]>>(7-i%8)&1 == 1
				c.dark[y*c.size+x] = bit != masks[c.mask](x, y)
				i++
			}
		}
	}
}

// masks report whether a mask inverts a module.
var masks = [8]func(x, y int) bool{
	func(x, y int) bool { return (x+y)%2 == 0 },
	func(_, y int) bool { return y%2 == 0 },
	func(x, _ int) bool { return x%3 == 0 },
	func(x, y int) bool { return (x+y)%3 == 0 },
	func(x, y int) bool { return (x/3+y/2)%2 == 0 },
	func(x, y int) bool { return x*y%2+x*y%3 == 0 },
	func(x, y int) bool { return (x*y%2+x*y%3)%2 == 0 },
	func(x, y int) bool { return ((x+y)%2+x*y%3)%2 == 0 },
}

// penalty rates how difficult the code is to scan. The mask with the lowest penalty is used.
func (c *Code) penalty() int {
	total, dark := 0, 0
	for y := range c.size {
		row, column := make([]bool, c.size), make([]bool, c.size)
		for x := range c.size {
			row[x], column[x] = c.dark[y*c.size+x], c.dark[x*c.size+y]
			if row[x] {
				dark++
			}
			if x > 0 && y > 0 && c.isBlock(x, y) {
				total += 3
			}
		}
		total += linePenalty(row) + linePenalty(column)
	}
	n := c.size * c.size
	deviation := max(20*dark-10*n, 10*n-20*dark) / n // from one half, in steps of 5 %
	return total + 10*deviation
}

// isBlock reports whether a module has the color of those to the left, above, and between them.
func (c *Code) isBlock(x, y int) bool {
	i := y*c.size + x
	return c.dark[i] == c.dark[i-1] && c.dark[i] == c.dark[i-c.size] && c.dark[i] == c.dark[i-c.size-1]
}

// finderLike are the patterns that a reader could confuse with a finder pattern.
var finderLike = [2][]bool{
	{true, false, true, true, true, false, true, false, false, false, false},
	{false, false, false, false, true, false, true, true, true, false, true},
}

// linePenalty returns the penalty of a row or column: for five or more modules of one color in
// sequence, and for patterns similar to a finder.
func linePenalty(line []bool) int {
	total, run := 0, 0
	for i, dark := range line {
		if i > 0 && dark != line[i-1] {
			run = 0
		}
		switch run++; {
		case run == 5:
			total += 3
		case run > 5:
			total++
		}
		for _, pattern := range finderLike {
			if end := i + len(pattern); end <= len(line) && slices.Equal(line[i:end], pattern) {
				total += 40
			}
		}
	}
	return total
}
