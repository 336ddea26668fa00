package main

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestRun_Readiness(t *testing.T) {
	t.Parallel()
	s := prepareSite(t)
	s.service.Inject(sandboxfake.Match{Operation: "jwks.get"}, sandboxfake.Fault{Status: http.StatusServiceUnavailable})
	s.start(t)
	b := s.browser(t)

	without, live := b.get("/readyz"), b.get("/livez")

	if without.status != http.StatusServiceUnavailable || live.status != http.StatusNoContent {
		t.Errorf("readyz, livez without a key set = %d, %d, want 503, 204", without.status, live.status)
	}
}

func TestRun_Ready(t *testing.T) {
	t.Parallel()
	s := newSite(t)

	got := s.browser(t).get("/readyz")

	if got.status != http.StatusNoContent {
		t.Errorf("readyz = %d %v, want 204", got.status, got.body)
	}
}

// A sign-up waits for the database while the shop is stopped.
func TestRun_StopsGracefully(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(s *site) { s.env["SHUTDOWN_DELAY"] = "10s" })
	lock := must(s.db.Begin(t.Context()))(t)
	must(lock.Exec(t.Context(), "LOCK TABLE signups"))(t)
	begun := make(chan reply, 1)
	go func() { begun <- s.browser(t).post("/signups", `{"phone_number": "447700900012"}`) }()
	for s.value(t, "SELECT count(*)::text FROM pg_locks WHERE NOT granted") == "0" {
		runtime.Gosched()
	}

	ended := make(chan struct{})
	go func() { s.stop(); close(ended) }()
	b := s.browser(t)
	readiness := b.get("/readyz")
	for readiness.status == http.StatusNoContent {
		readiness = b.get("/readyz")
	}
	noError(t, lock.Commit(t.Context()))
	got := <-begun
	<-ended

	if readiness.status != http.StatusServiceUnavailable {
		t.Errorf("readyz = %d, want 503 before the listener is closed", readiness.status)
	}
	if got.status != http.StatusCreated {
		t.Errorf("status = %d, want 201", got.status)
	}
}

func TestRun_ReplicasStartTogether(t *testing.T) {
	t.Parallel()
	first := prepareSite(t)
	second := prepareSite(t)
	second.env["DATABASE_URL"] = first.env["DATABASE_URL"]

	var started sync.WaitGroup
	started.Go(func() { first.listen(t) })
	started.Go(func() { second.listen(t) })
	started.Wait()
}

func TestRun_InvalidConfiguration(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, value, want string }{
		{"LISTEN", "", "LISTEN is not set"},
		{"PUBLIC_URL", "http://" + host, "PUBLIC_URL is not an https URL"},
		{"DATABASE_URL", "postgres://%", "DATABASE_URL is invalid"},
		{"OTEL", "x", `OTEL is "x", want stdout or none`},
		{"SHUTDOWN_DELAY", "1", "SHUTDOWN_DELAY is not a duration"},
		{"IDVERIFY_CA_FILE", os.DevNull, "IDVERIFY_CA_FILE contains no certificate"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := prepareSite(t)
			s.env[row.name] = row.value

			err := run(t.Context(), func(name string) string { return s.env[name] }, io.Discard, slog.New(slog.DiscardHandler))

			if err == nil || err.Error() != row.want {
				t.Errorf("error = %v, want %s", err, row.want)
			}
		})
	}
}

func TestRun_WrongCredentials(t *testing.T) {
	t.Parallel()
	s := prepareSite(t)
	s.setCredentials(t, idverify.Credentials{ClientID: "x", ClientSecret: idverify.NewSecret("y")})

	err := run(t.Context(), func(name string) string { return s.env[name] }, io.Discard, slog.New(slog.DiscardHandler))

	if err == nil || !strings.Contains(err.Error(), "invalid_client") {
		t.Errorf("error = %v, want invalid_client", err)
	}
}

func TestRun_RotatesCredentials(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	issued := must(s.service.Console().ProjectCredentials.Rotate(t.Context(), s.project.ProjectID, s.project.Credentials.ClientID))(t)
	s.setCredentials(t, issued.Credentials)

	got := s.browser(t).post("/signups", `{"phone_number": "447700900012"}`)

	if got.status != http.StatusCreated {
		t.Errorf("status = %d, want 201", got.status)
	}
}

// In a sandbox project, nearly every even number matches.
func TestRun_SandboxProject(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(s *site) { s.setCredentials(t, s.service.Credentials()) })
	for _, path := range []string{"/signups", "/signins", "/app/signins"} {
		got := s.browser(t).post(path, `{"phone_number": "447700900012"}`)

		if got.status != http.StatusServiceUnavailable || got.text("check_url") != "" {
			t.Errorf("POST %s = %d %v, want 503 and no Check URL", path, got.status, got.body)
		}
	}
}

// TestGlue counts the lines of wiring.go that are not blank, comments or imports.
func TestGlue(t *testing.T) {
	t.Parallel()
	source := must(os.ReadFile("wiring.go"))(t)
	_, code, _ := bytes.Cut(source, []byte("\n)\n"))

	lines := slices.DeleteFunc(strings.Split(string(code), "\n"), func(line string) bool { return regexp.MustCompile(`^\s*(//.*)?$`).MatchString(line) })

	if len(lines) >= 60 {
		t.Errorf("wiring.go has %d lines of code, want fewer than 60", len(lines))
	}
}
