// Growth reads bench/ratios.txt and writes docs/growth.svg. For each call, the diagram shows its
// cost with 10^2 to 10^6 stored checks, relative to 100 checks.
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"slices"
	"strings"
)

func main() {
	if err := draw(os.Stdin, os.Stdout); err != nil {
		log.Fatal("growth: ", err)
	}
}

// point is the relative cost of a call with a number of stored checks.
type point struct{ stored, ratio float64 }

func draw(in io.Reader, out io.Writer) error {
	lines := make(map[string][]point)
	var calls []string // in the order of the input
	scanner := bufio.NewScanner(in)
	for scanner.Scan() {
		call, p, ok := parse(scanner.Text())
		if !ok {
			continue
		}
		if lines[call] == nil {
			calls = append(calls, call)
		}
		lines[call] = append(lines[call], p)
	}
	if err := scanner.Err(); err != nil {
		return err
	}
	if len(calls) == 0 {
		return fmt.Errorf("the input contains no results of BenchmarkGrowth")
	}

	fmt.Fprintln(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 340" font-family="sans-serif" font-size="13">`)
	fmt.Fprintln(out, `<title>Cost of a call by number of stored checks, relative to 100 checks</title><rect width="640" height="340" fill="#fff"/>`)
	for _, ratio := range []float64{0, 0.5, 1, 1.5, 2} {
		fmt.Fprintf(out, `<path d="M60 %.0fH500" stroke="#ddd"/><text x="50" y="%.0f" text-anchor="end">×%g</text>`+"\n", y(ratio), y(ratio)+4, ratio)
	}
	for exponent := 2; exponent <= 6; exponent++ {
		fmt.Fprintf(out, `<text x="%.0f" y="310" text-anchor="middle">10<tspan dy="-5" font-size="9">%d</tspan></text>`+"\n", x(math.Pow10(exponent)), exponent)
	}
	fmt.Fprintln(out, `<text x="280" y="333" text-anchor="middle">stored checks</text>`)
	for i, call := range calls {
		color := []string{"#0b62a4", "#c2410c", "#15803d", "#7e22ce", "#334155"}[i%5]
		points := lines[call]
		slices.SortFunc(points, func(a, b point) int { return int(a.stored - b.stored) })
		var path strings.Builder
		for j, p := range points {
			command := "L"
			if j == 0 {
				command = "M"
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", command, x(p.stored), y(p.ratio))
		}
		fmt.Fprintf(out, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/><text x="512" y="%d" fill="%s">%s</text>`+"\n", path.String(), color, 60+22*i, color, strings.ReplaceAll(call, "-", " "))
	}
	fmt.Fprintln(out, "</svg>")
	return nil
}

// parse reads a line such as "BenchmarkGrowth/1000/read 933 0.9972 x-100".
func parse(line string) (call string, p point, ok bool) {
	var runs int
	_, err := fmt.Sscanf(line, "BenchmarkGrowth/%f/%s %d %f x-100", &p.stored, &call, &runs, &p.ratio)
	return call, p, err == nil
}

// x and y return the coordinates of a point. The scale of x is logarithmic.
func x(stored float64) float64 { return 60 + 110*(math.Log10(stored)-2) }
func y(ratio float64) float64  { return 290 - 130*min(ratio, 2) }
