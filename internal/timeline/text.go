package timeline

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Limits of WriteText, in lines and in characters.
const (
	maxTextEvents = 25
	maxTextLine   = 110
	maxTextTitle  = 36
	maxTextResult = 10
)

// WriteText writes the newest events, one on a line, with aligned columns: the time on the server's
// clock, with Real the time on the system's clock, the title, the result and the note.
func (t *Timeline) WriteText(w io.Writer) error {
	events := t.Events[max(0, len(t.Events)-maxTextEvents):]
	if len(events) == 0 {
		_, err := io.WriteString(w, t.textHeading(0))
		return err
	}
	rows := make([][]string, 0, len(events)+1)
	heading := []string{"clock", "", "", ""}
	if t.Real {
		heading[1] = "real"
	}
	rows = append(rows, heading)
	for i := range events {
		rows = append(rows, t.textRow(&events[i]))
	}
	widths := make([]int, len(heading))
	for _, row := range rows {
		for i, cell := range row[:len(heading)] {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	b.WriteString(t.textHeading(len(events)))
	for _, row := range rows {
		line := strings.TrimRight(textLine(row, widths), " ")
		if runes := []rune(line); len(runes) > maxTextLine {
			line = string(runes[:maxTextLine-1]) + "…"
		}
		b.WriteString(line + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// textHeading returns the line above the events.
func (t *Timeline) textHeading(shown int) string {
	all := t.Earlier + len(t.Events)
	switch {
	case all == 0:
		return "no events\n"
	case shown < all:
		return fmt.Sprintf("the last %d of %d events:\n", shown, all)
	case all == 1:
		return "1 event:\n"
	}
	return fmt.Sprintf("%d events:\n", all)
}

// textRow returns the cells of an event: those with columns, and the note.
func (t *Timeline) textRow(e *Event) []string {
	offset, elapsed := t.offset(e), ""
	switch {
	case e.Due:
		elapsed = "due"
	case t.Real:
		elapsed = Span(e.Real)
	}
	cell := func(text string, limit int) string { return clean(text, limit, false) }
	return []string{offset, elapsed, cell(e.Title, maxTextTitle), cell(e.Result, maxTextResult), cell(e.Note, 2*maxTextLine)}
}

// textLine aligns the times to the right, and the others to the left. It leaves out empty columns.
func textLine(row []string, widths []int) string {
	var line strings.Builder
	line.WriteString(" ")
	for i, cell := range row {
		switch {
		case i == len(widths):
			line.WriteString("  " + cell)
		case widths[i] == 0:
		case i < 2:
			fmt.Fprintf(&line, " %*s", widths[i], cell)
		default:
			fmt.Fprintf(&line, "  %-*s", widths[i], cell)
		}
	}
	return line.String()
}
