package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDoctor_Transcript(t *testing.T) {
	t.Parallel()
	_, env := newService(t)

	runTranscript(t, "doctor", env)
}

// tableRows returns the cells of the table rows in a section whose first cell is a code span.
func tableRows(section string) [][]string {
	var rows [][]string
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

func code(text string) string { return "`" + text + "`" }

func TestDoctorProblems_Documented(t *testing.T) {
	t.Parallel()
	var want [][]string
	for _, p := range doctorProblems {
		want = append(want, []string{code(p.check), code(p.name), string(p.result), p.remedy})
	}

	got := tableRows(docSection(t, "### Problems and remedies"))

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems in docs/tools.md (-code +page):\n%s", diff)
	}
}

func TestDoctorChecks_Documented(t *testing.T) {
	t.Parallel()
	var got []string
	for _, row := range tableRows(docSection(t, "### Checks of doctor")) {
		got = append(got, spans(row[0])...)
	}

	if diff := cmp.Diff(doctorChecks(), got); diff != "" {
		t.Errorf("checks in docs/tools.md (-code +page):\n%s", diff)
	}
}

func TestDoctorChecks_Selectable(t *testing.T) {
	t.Parallel()
	for _, name := range doctorChecks() {
		d := newDoctorRun(newProgram(nil))
		d.timeout, d.callbacks, d.redirects, d.only = time.Second, stringList{"https://a.test"}, stringList{"https://a.test"}, stringList{name}

		if err := d.configure(nil); err != nil {
			t.Errorf("-only %s: %v", name, err)
		}
	}
}

func TestDoctorFlags_Documented(t *testing.T) {
	t.Parallel()
	d := newDoctorRun(newProgram(nil))
	flags := newFlags("doctor", "")
	d.define(flags)
	var want, got []string
	flags.VisitAll(func(f *flag.Flag) { want = append(want, "-"+f.Name) })

	for _, row := range tableRows(docSection(t, "### Flags of doctor")) {
		got = append(got, spans(row[0])[0])
	}

	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags in docs/tools.md (-code +page):\n%s", diff)
	}
}

func TestDoctorJSON_Documented(t *testing.T) {
	t.Parallel()
	want := []string{"result", "started", "duration_seconds", "count", "checks"}
	for field := range reflect.TypeFor[doctorRow]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		want = append(want, "checks[]."+name)
	}
	var document map[string]any
	if err := json.Unmarshal([]byte(doctorJSON(t, nil, "-only", "config").text), &document); err != nil {
		t.Fatal(err)
	}
	for name := range document {
		if !slices.Contains(want, name) {
			t.Errorf("the document has the field %s, which is not documented", name)
		}
	}

	var got []string
	for _, row := range tableRows(docSection(t, "### JSON of doctor")) {
		got = append(got, strings.Trim(row[0], "`"))
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields in docs/tools.md (-code +page):\n%s", diff)
	}
}

// The arguments of the Kubernetes example must be valid.
func TestDoctorJob_Documented(t *testing.T) {
	t.Parallel()
	match := regexp.MustCompile(`(?m)^ +command: (\[.*\])$`).FindStringSubmatch(docSection(t, "### Kubernetes"))
	if match == nil {
		t.Fatal("the example has no command")
	}
	var command []string
	if err := json.Unmarshal([]byte(match[1]), &command); err != nil {
		t.Fatal(err)
	}

	got := doctorJSON(t, nil, command[2:]...)

	if got.code != exitProblem || len(got.Checks) < 12 {
		t.Errorf("exit code %d, output: %s", got.code, got.text)
	}
}

// Every problem must have a test that asserts it.
func TestDoctorProblems_Tested(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("doctor*.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests, sources strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasSuffix(path, "_test.go"):
			tests.Write(text)
		case path != "doctor.go": // it contains the table
			sources.Write(text)
		}
	}
	for _, p := range doctorProblems {
		named := fmt.Sprintf("%q, %q", p.check, p.name)
		if !strings.Contains(tests.String(), named) && !testedByTable[p.check+" "+p.name] {
			t.Errorf("no test contains %s", named)
		}
		if !strings.Contains(sources.String(), fmt.Sprintf("%q", p.name)) {
			t.Errorf("the code never reports %s", named)
		}
	}
}

// testedByTable contains the problems of tests whose rows have the name of the problem only.
var testedByTable = map[string]bool{
	"base-url-proxy invalid": true, "base-url-proxy unreachable": true, "base-url-proxy rejected": true, // TestDoctor_Proxy
	"base-url-proxy timeout": true, "base-url-tls timeout": true, "callback-tls timeout": true, // doctor_timeout_test.go
	"base-url-connection unresolved": true, "base-url-connection closed-port": true, "base-url-connection unreachable": true, // TestDoctor_Connection
	"base-url-tls wrong-host": true, "base-url-tls expired": true, "base-url-tls handshake": true, "base-url-tls expires-soon": true, // TestDoctor_Certificates
	"callback-tls wrong-host": true, "callback-tls expired": true, "callback-tls handshake": true, "callback-tls expires-soon": true, "callback-tls untrusted": true,
	"base-url-response none": true, "base-url-response redirect": true, // TestDoctor_Response
	"clock wrong": true, "clock skewed": true, // TestDoctor_Clock
	"key-set unusable": true, "key-set ignored": true, // TestDoctor_KeySet
	"callback-unsigned slow": true, "callback-forged slow": true, // TestDoctor_SlowReceiver
	"callback-address invalid": true, "callback-address unresolved": true, "callback-address closed-port": true, "callback-address unreachable": true, // TestDoctor_ReceiverAddress
}
