package sandboxfake_test

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// resetIDs creates a check before and after each of n resets, with the initial credentials, and
// returns the IDs.
func resetIDs(t *testing.T, a *api, n int, reset func(int)) []string {
	t.Helper()
	credentials := a.srv.Credentials()
	var ids []string
	for i := range n + 1 {
		if i > 0 {
			reset(i)
		}
		if now := a.srv.Credentials(); now.ClientID != credentials.ClientID || now.ClientSecret.Reveal() != credentials.ClientSecret.Reveal() {
			t.Fatal("Reset changed the credentials, want the same ones: clients keep their configuration")
		}
		a.token = a.tokenFor(credentials, "phone_check")
		ids = append(ids, a.create(phoneChecks, `{"phone_number":"447700900012"}`))
	}
	return ids
}

// distinct returns the number of different IDs.
func distinct(ids []string) int { return len(slices.Compact(slices.Sorted(slices.Values(ids)))) }

func TestServer_ResetWithNewIDs(t *testing.T) {
	t.Parallel()
	run := func(opts ...sandboxfake.Option) []string {
		a := newControlAPI(t, opts...)
		return resetIDs(t, a, 3, func(int) { a.srv.Reset() })
	}

	same, first, second := run(), run(sandboxfake.WithNewIDsAfterReset()), run(sandboxfake.WithNewIDsAfterReset())

	if distinct(same) != 1 {
		t.Errorf("IDs without the option = %q, want the same after each reset", same)
	}
	if !slices.Equal(first, second) {
		t.Errorf("IDs of two servers of one seed = %q and %q, want the same", first, second)
	}
	if distinct(first) != 4 {
		t.Errorf("IDs = %q, want a different one after each reset", first)
	}
}

func TestServer_ControlResetSeed(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithNewIDsAfterReset())
	seeds := []string{`{"seed":7}`, `{"seed":18446744073709551615}`, `{"seed":7}`, `{"seed":0}`, ``}

	ids := resetIDs(t, a, len(seeds), func(i int) {
		if got := a.control(http.MethodPost, "reset", seeds[i-1]); got.status != http.StatusNoContent {
			t.Fatalf("reset %s: %d %s", seeds[i-1], got.status, got.body)
		}
	})

	if ids[1] != ids[3] || ids[0] != ids[4] {
		t.Errorf("IDs = %q, want equal IDs for equal seeds: the second and fourth, the first and fifth", ids)
	}
	if distinct(ids) != 4 {
		t.Errorf("IDs = %q, want different IDs for different seeds and for the option", ids)
	}
	for _, body := range []string{`{"seed":-1}`, `{"seed":"7"}`, `{"seed":18446744073709551616}`, `{"sed":7}`, `seed`} {
		before := a.create(phoneChecks, `{"phone_number":"447700900012"}`)
		a.control(http.MethodPost, "reset", body).wantProblem(t, http.StatusBadRequest, "bad_request")
		if got := a.get(phoneChecks + "/" + before); got.status != http.StatusOK {
			t.Errorf("check after the rejected reset with %s = %d, want 200", body, got.status)
		}
	}
}

func TestServer_TrustsReceiverCA(t *testing.T) {
	t.Parallel()
	var receiver recordingReceiver
	backend := httptest.NewUnstartedServer(&receiver)
	backend.Config.ErrorLog = log.New(io.Discard, "", 0)
	backend.StartTLS()
	t.Cleanup(backend.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: backend.Certificate().Raw})
	deliver := func(opts ...sandboxfake.Option) sandboxfake.AttemptResult {
		t.Helper()
		a := newAPI(t, sandboxfake.New(t, opts...))
		a.completeCheck(backend.URL + "/callbacks")
		if err := a.srv.Idle(t.Context()); err != nil {
			t.Fatal(err)
		}
		return a.srv.Deliveries()[0].Attempts[0].Result
	}

	with, without := deliver(sandboxfake.WithReceiverCA(append([]byte("a comment\n"), ca...))), deliver()

	if with != sandboxfake.ResultAcknowledged || receiver.count() != 1 {
		t.Errorf("delivery with the option = %q, want %q", with, sandboxfake.ResultAcknowledged)
	}
	if without != sandboxfake.ResultUnreachable {
		t.Errorf("delivery without the option = %q, want %q", without, sandboxfake.ResultUnreachable)
	}
	for name, text := range map[string]string{
		"nothing":     "",
		"not PEM":     "certificate",
		"private key": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
		"invalid one": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
	} {
		if srv, err := sandboxfake.Start(sandboxfake.WithInMemory(), sandboxfake.WithReceiverCA([]byte(text))); err == nil {
			srv.Close()
			t.Errorf("WithReceiverCA accepts %s, want an error", name)
		}
	}
}

func TestAttempt_ErrorOmitsHost(t *testing.T) {
	t.Parallel()
	backend := httptest.NewUnstartedServer(http.NotFoundHandler())
	backend.Config.ErrorLog = log.New(io.Discard, "", 0)
	backend.StartTLS() // its certificate is not valid for localhost
	t.Cleanup(backend.Close)
	_, port, err := net.SplitHostPort(backend.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: backend.Certificate().Raw})

	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithReceiverCA(ca)))

	a.completeCheck("https://localhost:" + port + "/callbacks")
	if err := a.srv.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}

	const want = "the connection failed or was lost: the certificate is for another host"
	if got := a.srv.Deliveries()[0].Attempts[0].Error; got != want {
		t.Errorf("error of the attempt = %q, want %q", got, want)
	}
}

func TestWithPrices_UnknownProduct(t *testing.T) {
	t.Parallel()

	srv, err := sandboxfake.Start(sandboxfake.WithInMemory(), sandboxfake.WithPrices(map[idverify.Product]string{"phone_chek": "1"}))

	if err == nil {
		srv.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "phone_chek") {
		t.Errorf("error = %v, want one that names the unknown product", err)
	}
}
