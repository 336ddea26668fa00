package proxytest

import (
	"errors"
	"testing"

	"github.com/idverify/idverify-go"
)

// TestConsole_RejectsPathsInIDs uses an nginx that decodes %2F and resolves dot segments, because
// its proxy_pass ends in a slash. An ID with such segments would address another resource.
func TestConsole_RejectsPathsInIDs(t *testing.T) {
	t.Parallel()
	backend := startBackend(t, behavior{act: respond})
	const host = "console.example.com"
	p := startProxy(t, "nginx", route{Host: host, Backend: backend.listener.Addr().String(), Slash: "/"})
	client, console := p.clients(t, host, "h2", false)
	tests := map[string]func() error{
		"delete credentials": func() error { return console.ProjectCredentials.Delete(t.Context(), projectID, "../../project-2") },
		"delete project":     func() error { return console.Projects.Delete(t.Context(), "../projects/project-2") },
		"delete with escapes": func() error {
			return console.ProjectCredentials.Delete(t.Context(), projectID, "%2e%2e/%2e%2e/project-2")
		},
		"delete parent": func() error { return console.ProjectCredentials.Delete(t.Context(), projectID, "..") },
		"get check": func() error {
			_, err := client.PhoneChecks.Get(t.Context(), "../checks/check-2")
			return err
		},
		"complete check": func() error {
			_, err := client.PhoneChecks.Complete(t.Context(), "check-1/../check-2", "synthetic-code")
			return err
		},
	}
	backend.arm()

	for name, call := range tests {
		if err := call(); !errors.Is(err, idverify.ErrBadRequest) {
			t.Errorf("%s: error = %v, want ErrBadRequest", name, err)
		}
	}

	if requests := backend.received(""); len(requests) > 0 {
		t.Errorf("the backend received %q, want no request", requests)
	}
}
