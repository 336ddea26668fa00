package main

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

const wantOutput = `customer 12: verified
customer 13: not verified: another phone has this number
customer 99: no result from the mobile network (mno_server_error): verify in another way
`

func TestRun_PrintsResults(t *testing.T) {
	t.Parallel()
	var out, log bytes.Buffer

	noError(t, runFile(t.Context(), &out, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), nil))
	if got := out.String(); got != wantOutput {
		t.Errorf("output = %s, want %s", got, wantOutput)
	}
	for _, text := range []string{"outcome=duplicate", "reason=ErrSignature"} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("log does not contain %q:\n%s", text, log.String())
		}
	}
}

func TestRun_TwiceWithOneFile(t *testing.T) {
	t.Parallel()
	// SQLite gives some of these characters a meaning in a data source name.
	file := filepath.Join(t.TempDir(), "shop ?#%41&.db")

	for range 2 {
		var out bytes.Buffer
		noError(t, runFile(t.Context(), &out, slog.New(slog.DiscardHandler), []string{file}))
		if got := out.String(); got != wantOutput {
			t.Errorf("output = %s, want %s", got, wantOutput)
		}
	}

	db := must(openDB(t.Context(), file))(t)
	defer db.Close()
	var processed int
	noError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM sign_ups WHERE result <> ''").Scan(&processed))
	if processed != 6 {
		t.Errorf("the file contains %d results, want 6: those of both runs", processed)
	}
}
