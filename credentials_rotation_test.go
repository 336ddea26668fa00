package idverify_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

const (
	rotationCallers = 200
	rotations       = 4
)

// storedCredentials is a secret store. Its method get is a source of credentials.
type storedCredentials struct {
	current  atomic.Pointer[idverify.Credentials]
	replaced atomic.Pointer[chan struct{}] // closed unless the credentials are being replaced
	stale    chan idverify.Credentials     // replaced credentials for one call of get
	calls    atomic.Int64
}

func newStoredCredentials(c idverify.Credentials) *storedCredentials {
	s := &storedCredentials{stale: make(chan idverify.Credentials)}
	replaced := make(chan struct{})
	close(replaced)
	s.replaced.Store(&replaced)
	s.current.Store(&c)
	return s
}

func (s *storedCredentials) get(context.Context) (idverify.Credentials, error) {
	s.calls.Add(1)
	select {
	case old := <-s.stale:
		return old, nil
	case <-*s.replaced.Load():
	}
	// Another Secret with the same text, as a store that decodes it returns.
	c := *s.current.Load()
	return idverify.Credentials{ClientID: c.ClientID, ClientSecret: idverify.NewSecret(c.ClientSecret.Reveal())}, nil
}

// reset replaces the credentials with those that f returns. One call of get then returns the old
// credentials. Others wait for the new ones.
func (s *storedCredentials) reset(f func() idverify.Credentials) {
	replaced := make(chan struct{})
	s.replaced.Store(&replaced)
	defer close(replaced)
	c := f()
	s.stale <- *s.current.Load()
	s.current.Store(&c)
}

// options returns the options of a client or console that uses the credentials of s. It makes one
// attempt, so that no retry hides a failure.
func (s *storedCredentials) options(srv *sandboxfake.Server) []idverify.Option {
	transport := srv.HTTPClient().Transport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = rotationCallers
	return []idverify.Option{
		idverify.WithHTTPClient(&http.Client{Transport: transport, Timeout: time.Minute}),
		idverify.WithClock(srv.Now),
		withoutRetries,
	}
}

// underLoad runs f in many goroutines until rotate, which starts after some calls, has returned. It
// returns the number of calls.
func underLoad(t *testing.T, f func() error, rotate func()) int64 {
	t.Helper()
	var wg sync.WaitGroup
	var calls, failed atomic.Int64
	warm, rotated := make(chan struct{}), make(chan struct{})
	for range rotationCallers {
		wg.Go(func() {
			for last := false; !last; {
				select {
				case <-rotated:
					last = true
				default:
				}
				if err := f(); err != nil && failed.Add(1) <= 3 {
					t.Errorf("error = %v, want no failed call during a rotation", err)
				}
				if calls.Add(1) == rotationCallers {
					close(warm)
				}
			}
		})
	}
	<-warm
	rotate()
	close(rotated)
	wg.Wait()
	return calls.Load()
}

func TestCredentialsSource_RotationUnderLoad(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), sandboxfake.WithJournalLimit(1<<16))
	console, project := srv.Console(), srv.NewProject(idverify.ProjectParams{Name: "rotated", Mode: idverify.ModeSandbox})
	store := newStoredCredentials(project.Credentials)
	client := must(idverify.NewClient(srv.URL(), idverify.CredentialsFunc(store.get), store.options(srv)...))(t)
	var creates atomic.Int64

	call := func() error {
		if creates.Add(1)%4 != 0 {
			_, err := client.SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: matchingNumber})
			return err
		}
		_, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: matchingNumber})
		return err
	}
	var calls int64
	for range rotations {
		// Renewals are due while the credentials change.
		if err := srv.Advance(t.Context(), 59*time.Minute+30*time.Second); err != nil {
			t.Fatal(err)
		}
		calls += underLoad(t, call, func() {
			old := store.current.Load().ClientID
			issued := must(console.ProjectCredentials.Create(t.Context(), project.ProjectID))(t)
			store.current.Store(&issued.Credentials)
			if err := console.ProjectCredentials.Delete(t.Context(), project.ProjectID, old); err != nil {
				t.Error(err)
			}
		})
	}

	created := int64(0)
	users := make(map[string]bool)
	for _, r := range srv.Requests() {
		if r.ProjectID == project.ProjectID && r.Status == http.StatusCreated {
			created++
			users[r.ClientID] = true
		}
	}
	if created != calls || len(users) != rotations+1 {
		t.Errorf("%d checks with %d credentials for %d calls, want one check per call with %d credentials", created, len(users), calls, rotations+1)
	}
	t.Logf("%d calls, %d calls of the source", calls, store.calls.Load())
}

// ResetSecret revokes the old secret before its caller knows the new one. A call of the source that
// began before the reset returns the old secret; later calls wait for the new one.
func TestCredentialsSource_ResetUnderLoad(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithJournalLimit(1<<16))
	account := srv.NewWorkspace("Shop")
	admin := account.Console()
	issued := must(admin.WorkspaceCredentials.Create(t.Context(), account.MemberID))(t)
	store := newStoredCredentials(issued.Credentials)
	console := must(idverify.NewConsole(srv.URL(), idverify.CredentialsFunc(store.get), store.options(srv)...))(t)

	var calls int64
	for range rotations {
		calls += underLoad(t, func() error {
			_, err := console.Projects.List(t.Context(), idverify.ListOptions{})
			return err
		}, func() {
			store.reset(func() idverify.Credentials {
				return must(admin.WorkspaceCredentials.ResetSecret(t.Context(), account.MemberID, issued.ClientID))(t).Credentials
			})
		})
	}

	rejected := 0
	for _, r := range srv.Requests() {
		if r.Operation == "token.create" && r.Status == http.StatusUnauthorized {
			rejected++
		}
	}
	if rejected != rotations {
		t.Errorf("%d token requests with an old secret, want %d: the source is called once more after each", rejected, rotations)
	}
	t.Logf("%d calls, %d calls of the source", calls, store.calls.Load())
}
