package signin_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/examples/passwordless/internal/signin"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// examine examines a path of the pages. Messages are signed by receivertest, and checks are created
// with a fake of the service, which does not know the codes of the redirects.
func examine(t *testing.T, kind receivertest.Kind, path string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		service := sandboxfake.New(t, sandboxfake.WithInMemory())
		keys, err := receivertest.NewKeys()
		if err != nil {
			t.Fatal(err)
		}
		keySet, err := signature.NewJWKS(keys.URL(), &signature.JWKSOptions{HTTPClient: keys.Client()})
		if err != nil {
			t.Fatal(err)
		}
		verifier, err := signature.NewVerifier(keySet, []string{host}, &signature.VerifierOptions{Replay: signature.NewMemoryReplayStore(0)})
		if err != nil {
			t.Fatal(err)
		}
		s := &shop{service: service, url: "https://" + host}
		handler := signin.New(signin.Config{
			Client:   service.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"})),
			Verifier: verifier,
			BaseURL:  s.url,
			Log:      slog.New(slog.DiscardHandler),
		})
		service.Handle(host, handler)

		receivertest.Run(t, receivertest.Receiver{Keys: keys, Kind: kind, URL: s.url + path, Handler: handler, Strict: true, Probe: s.probe(t)})
	})
}

// probe returns a probe that starts a sign-in for each session. An effect is the exchange of a
// code.
func (s *shop) probe(t *testing.T) receivertest.Probe {
	return receivertest.Probe{
		Effects: func(_ context.Context, checkID string) (n int, err error) {
			for _, r := range s.service.Requests() {
				if r.Operation == "phone_check.complete" && strings.HasSuffix(r.Path, "/"+checkID) {
					n++
				}
			}
			return n, nil
		},
		Session: func(context.Context) (receivertest.Session, error) {
			b := s.browser(t)
			checkURL := b.begin("+44 7700 900-012")
			header := http.Header{}
			for _, c := range b.cookies() {
				header.Add("Cookie", c.Name+"="+c.Value)
			}
			return receivertest.Session{CheckID: checkIDOf(checkURL), Header: header}, nil
		},
	}
}

// checkIDOf returns the check ID in a Check URL: its last but one segment.
func checkIDOf(checkURL string) string {
	segments := strings.Split(checkURL, "/")
	return segments[len(segments)-2]
}

func TestRedirect_Examined(t *testing.T) {
	t.Parallel()
	examine(t, receivertest.KindRedirect, "/verified")
}

func TestCallback_Examined(t *testing.T) {
	t.Parallel()
	examine(t, receivertest.KindCallback, "/callbacks")
}
