package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// createChecks creates checks with the reference IDs order-0, order-1 and so on.
func createChecks(t *testing.T, srv *sandboxfake.Server, count int) {
	t.Helper()
	client := srv.Client()
	for i := range count {
		params := idverify.PhoneCheckParams{PhoneNumber: number, ReferenceID: fmt.Sprintf("order-%d", i)}
		if _, err := client.PhoneChecks.Create(t.Context(), params); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCheckList_ThousandChecks(t *testing.T) {
	t.Parallel()
	srv, env := newService(t, sandboxfake.WithJournalLimit(10_000), sandboxfake.WithFrozenClock(time.Now()))
	createChecks(t, srv, 1000)

	for _, row := range []struct {
		limit         string
		checks, pages int
		stderr        string
		last, missing string
	}{
		{"150", 150, 2, "There may be more: -limit 150.", "order-149", "order-150"},
		{"20", 20, 1, "There may be more", "order-19", "order-20"},
		{"0", 1000, 10, "!more", "order-999", "order-1000"},
	} {
		before := requests(srv, "phone_check.list")

		text := runProgram(t, env, "", "check", "list", "-limit", row.limit)
		document := runProgram(t, env, "", "check", "list", "-json", "-limit", row.limit).decode(t)

		text.expect(t, exitOK, []string{row.last + "\n", "!" + row.missing + "\n"}, []string{row.stderr})
		if n := strings.Count(text.stdout, "\n") - 1; n != row.checks {
			t.Errorf("-limit %s: rows = %d, want %d", row.limit, n, row.checks)
		}
		if checks, _ := document["checks"].([]any); len(checks) != row.checks {
			t.Errorf("-limit %s: checks in JSON = %d, want %d", row.limit, len(checks), row.checks)
		}
		if n := (requests(srv, "phone_check.list") - before) / 2; n != row.pages {
			t.Errorf("-limit %s: pages = %d, want %d", row.limit, n, row.pages)
		}
	}
}

func TestCheckList_FailsInTheMiddle(t *testing.T) {
	t.Parallel()
	srv, env := newService(t, sandboxfake.WithFrozenClock(time.Now()))
	createChecks(t, srv, 250)
	pass, fail := sandboxfake.Fault{}, sandboxfake.Fault{Status: 400}
	srv.Inject(sandboxfake.Match{Operation: "phone_check.list"}, pass, pass, fail, pass, pass, fail)

	text := runProgram(t, env, "", "check", "list", "-limit", "0")
	document := runProgram(t, env, "", "check", "list", "-limit", "0", "-json")

	text.expect(t, exitProblem, []string{"order-0\n", "order-199\n", "!order-200\n"}, []string{"idverify: list PhoneChecks: 400"})
	document.expect(t, exitProblem, []string{`"order-199"`, "!]"}, []string{"idverify: list PhoneChecks: 400"})
}

func TestCheckList_Filters(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(-time.Hour)
	srv, env := newService(t, sandboxfake.WithFrozenClock(at))
	createChecks(t, srv, 3)
	// The checks expire after two minutes.
	if err := srv.Advance(t.Context(), 100*time.Second); err != nil {
		t.Fatal(err)
	}
	checkID, checkURL := create(t, env, "-reference", `new "order"; status==ACCEPTED`, number)
	if _, err := srv.Device().Open(t.Context(), checkURL); err != nil {
		t.Fatal(err)
	}

	const recently = "50 s after the first three checks"
	for _, row := range []struct {
		name string
		args []string
		want int
		only bool // the new check
	}{
		{"all", nil, 4, false},
		{"status", []string{"-status", "completed"}, 1, true},
		{"reference", []string{"-reference", `new "order"; status==ACCEPTED`}, 1, true},
		{"reference and status", []string{"-reference", `new "order"; status==ACCEPTED`, "-status", "ACCEPTED"}, 0, false},
		{"since a time", []string{"-since", at.Add(100 * time.Second).Format(time.RFC3339)}, 1, true},
		{"since a duration", []string{"-since", recently}, 1, true},
		{"since two hours", []string{"-since", "2h"}, 4, false},
		{"reference and since", []string{"-reference", "order-1", "-since", recently}, 0, false},
		{"since and status", []string{"-since", "2h", "-status", "ACCEPTED"}, 3, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			args := append([]string{"check", "list", "-json"}, row.args...)
			if i := slices.Index(args, recently); i >= 0 { // much time may have passed until the subtest runs
				args[i] = (time.Since(at) - 50*time.Second).String()
			}

			got := runProgram(t, env, "", args...)

			checks, _ := got.decode(t)["checks"].([]any)
			if len(checks) > 0 && checks[0].(map[string]any)["check_id"] != checkID && row.args == nil {
				t.Errorf("the first check is not the newest one")
			}
			if len(checks) != row.want || row.only && !strings.Contains(got.stdout, checkID) {
				t.Errorf("checks = %d, want %d\n%s", len(checks), row.want, got.stdout)
			}
		})
	}
}

func TestCheckList_InvalidFlags(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"are not stored":           {"-status", "EXPIRED"},
		"must be ACCEPTED":         {"-status", "done"},
		"must be a positive":       {"-since", "-1h"},
		"a time such as":           {"-since", "yesterday"},
		"must not be negative":     {"-fake", "-limit", "-1"},
		"number of arguments: 1":   {"-fake", "order-1"},
		"not defined: -reference-": {"-reference-id", "order-1"},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()

			got := runProgram(t, nil, "", append([]string{"check", "list"}, args...)...)

			got.expect(t, exitUsage, nil, []string{want})
		})
	}
}
