package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// doctorResult is the result of a check.
type doctorResult string

const (
	resultOK      doctorResult = "ok"
	resultWarning doctorResult = "warning"
	resultFailed  doctorResult = "failed"
	resultSkipped doctorResult = "skipped"

	// resultInterrupted is a result of the run, not of a check.
	resultInterrupted doctorResult = "interrupted"
)

// diagnosis is the finding of a check.
type diagnosis struct {
	problem string // name of a problem in doctorProblems; empty if there is none
	skipped bool
	format  string // of the detail
	args    []any  // values in the detail; texts and errors can come from servers
}

// healthy returns the diagnosis of a check that has found no problem.
func healthy(format string, args ...any) diagnosis {
	return diagnosis{format: format, args: args}
}

// skipped returns the diagnosis of a check that could not run.
func skipped(format string, args ...any) diagnosis {
	return diagnosis{skipped: true, format: format, args: args}
}

// sick returns the diagnosis of a check that has found a problem.
func sick(problem, format string, args ...any) diagnosis {
	return diagnosis{problem: problem, format: format, args: args}
}

// doctorRow is the result of one check as it is printed. The names of its JSON fields are stable.
type doctorRow struct {
	Name     string       `json:"name"`
	Target   string       `json:"target,omitempty"`
	Result   doctorResult `json:"result"`
	Problem  string       `json:"problem,omitempty"`
	Detail   string       `json:"detail"`
	Remedy   string       `json:"remedy,omitempty"`
	Duration float64      `json:"duration_seconds"`
}

// add records the diagnosis of a check, and prints it unless the output is JSON.
func (d *doctorRun) add(c doctorCheck, found diagnosis, took time.Duration) {
	row := doctorRow{Name: c.name, Target: clean(c.target, lineLength), Result: resultOK, Problem: found.problem, Duration: took.Round(time.Millisecond).Seconds()}
	row.Detail = d.detail(found)
	switch {
	case found.skipped:
		row.Result = resultSkipped
	case found.problem != "":
		p := problemOf(c.name, found.problem)
		row.Result, row.Remedy = p.result, linked(p.remedy)
	}
	if row.Result == resultFailed {
		d.failed[c.key()] = c.name
	}
	d.rows = append(d.rows, row)
	if d.json {
		return
	}
	if row.Target != "" {
		row.Detail = row.Target + ": " + row.Detail
	}
	fmt.Fprintf(d.stdout, "%-8s %-21s %s\n", row.Result, spaced(row.Name), row.Detail)
	if row.Remedy != "" {
		fmt.Fprintf(d.stdout, "%-30s %s\n", "", row.Remedy)
	}
}

// spaced returns the name of a check for people.
func spaced(name string) string { return strings.ReplaceAll(name, "-", " ") }

// count returns the number of checks with a result.
func (d *doctorRun) count(result doctorResult) int {
	n := 0
	for _, row := range d.rows {
		if row.Result == result {
			n++
		}
	}
	return n
}

// finish prints the summary or the JSON document.
func (d *doctorRun) finish() error {
	numbers := make(map[doctorResult]int)
	for _, result := range []doctorResult{resultOK, resultWarning, resultFailed, resultSkipped} {
		numbers[result] = d.count(result)
	}
	if !d.json {
		_, err := fmt.Fprintf(d.stdout, "\n%d ok, %s, %d failed, %d skipped\n",
			numbers[resultOK], plural(numbers[resultWarning], "warning"), numbers[resultFailed], numbers[resultSkipped])
		return err
	}
	overall := resultOK
	for _, result := range []doctorResult{resultWarning, resultFailed} {
		if numbers[result] > 0 {
			overall = result
		}
	}
	if d.interrupted {
		overall = resultInterrupted
	}
	text, err := encode(struct {
		Result   doctorResult         `json:"result"`
		Started  time.Time            `json:"started"`
		Duration float64              `json:"duration_seconds"`
		Count    map[doctorResult]int `json:"count"`
		Checks   []doctorRow          `json:"checks"`
	}{overall, d.started.UTC().Truncate(time.Millisecond), time.Since(d.started).Round(time.Millisecond).Seconds(), numbers, d.rows}, "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(d.stdout, text)
	return err
}

// maxDetail is the maximum length of the detail of a check, in characters.
const maxDetail = 300

// shortestSecret is the length of the shortest secret that is redacted, in characters. A shorter
// one is likely to be part of other words, and redacting these would disclose it.
const shortestSecret = 8

// detail returns the text of a diagnosis without the secrets of this run. Only texts from servers
// and libraries are redacted: a secret can be a word of the program's own text.
func (d *doctorRun) detail(found diagnosis) string {
	args := make([]any, len(found.args))
	for i, arg := range found.args {
		switch v := arg.(type) {
		case string:
			args[i] = d.redact(v)
		case error:
			args[i] = d.redact(v.Error())
		default:
			args[i] = v
		}
	}
	return clean(fmt.Sprintf(found.format, args...), maxDetail)
}

// redact replaces the secrets of this run.
func (d *doctorRun) redact(text string) string {
	for _, secret := range d.secrets {
		if utf8.RuneCountInString(secret) >= shortestSecret {
			text = strings.ReplaceAll(text, secret, "[REDACTED]")
		}
	}
	return text
}

// plural returns a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
