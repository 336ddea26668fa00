package idverify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// matchingNumber is a number whose PhoneCheck matches in the sandbox.
const matchingNumber = "447700900012"

func TestPhoneCheckService_CreateAndCallback(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]string{
		"447700900012": "COMPLETED yes",
		"447700900013": "COMPLETED no",
		"447700900055": "ERROR unknown",
	} {
		t.Run(number, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t)
			callbacks := make(chan *idverify.Callback, 1)
			shop := srv.Handle("shop.sandbox.test", idverify.CallbackHandler(srv.Verifier([]string{"shop.sandbox.test"}, nil), func(_ context.Context, c *idverify.Callback) error {
				callbacks <- c
				return nil
			}))

			check, err := srv.Client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: number, ReferenceID: "r", CallbackURL: shop + "/callbacks"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := srv.Device().Open(t.Context(), check.CheckURL); err != nil {
				t.Fatal(err)
			}
			c := <-callbacks

			if got := fmt.Sprint(c.Status, " ", c.Match); got != want || c.CheckID != check.CheckID || c.Product != idverify.ProductPhoneCheck || c.ReferenceID != "r" || !c.CreatedAt.Equal(check.CreatedAt) {
				t.Errorf("callback = %+v of check %+v, want %s", c, check, want)
			}
			read, err := srv.Client().PhoneChecks.Get(t.Context(), check.CheckID)
			if c.Status == idverify.StatusError {
				if !errors.Is(err, idverify.ErrNotFound) {
					t.Errorf("get of a check in ERROR = %+v, %v, want ErrNotFound", read, err)
				}
				return
			}
			if err != nil || read.Status != c.Status || read.Match != c.Match || read.NetworkID != c.NetworkID {
				t.Errorf("check = %+v, error = %v, want the result of the callback %+v", read, err, c)
			}
		})
	}
}

func TestPhoneCheckService_CreateSendsOnce(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]sandboxfake.Fault{
		"dropped":   {Drop: true},
		"truncated": {Truncate: true},
		"500":       {Status: http.StatusInternalServerError},
		"503":       {Status: http.StatusServiceUnavailable, RetryAfter: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t)
			srv.Inject(sandboxfake.Match{Operation: "phone_check.create"}, fault)

			_, err := srv.Client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: matchingNumber})

			if err == nil {
				t.Fatal("error = nil, want an error")
			}
			if n := countRequests(srv, "phone_check.create"); n != 1 {
				t.Errorf("service received %d creates, want 1: each one is charged", n)
			}
		})
	}
}

func TestClient_RetriesTransientFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory())
		c := srv.Client()
		check, err := c.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: matchingNumber})
		if err != nil {
			t.Fatal(err)
		}
		srv.Inject(sandboxfake.Match{Operation: "phone_check.get"},
			sandboxfake.Fault{Status: 503, RetryAfter: 9 * time.Second}, sandboxfake.Fault{Drop: true}, sandboxfake.Fault{Truncate: true})
		srv.Inject(sandboxfake.Match{Operation: "phone_check.create"}, sandboxfake.Fault{Status: 429, RetryAfter: 8 * time.Second})
		start := time.Now()

		_, getErr := c.PhoneChecks.Get(t.Context(), check.CheckID)
		got := time.Since(start)
		_, createErr := c.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: matchingNumber})

		if getErr != nil || createErr != nil {
			t.Errorf("errors of Get = %v, of Create = %v, want nil", getErr, createErr)
		}
		if got < 9*time.Second || got > 12*time.Second {
			t.Errorf("Get took %v, want 9s (Retry-After) to 12s (with backoff)", got)
		}
	})
}

func TestPhoneCheckService_Wait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory())
		c := srv.Client()
		opened, err := c.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: matchingNumber})
		if err != nil {
			t.Fatal(err)
		}
		unopened, err := c.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: matchingNumber})
		if err != nil {
			t.Fatal(err)
		}
		device := srv.Device()
		time.AfterFunc(20*time.Second, func() { device.Open(t.Context(), opened.CheckURL) })

		check, err := c.PhoneChecks.Wait(t.Context(), opened.CheckID)
		_, expired := c.PhoneChecks.Wait(t.Context(), unopened.CheckID)

		if err != nil || check.Match != idverify.VerdictYes {
			t.Errorf("opened check = %+v, %v, want a match", check, err)
		}
		if e, ok := errors.AsType[*idverify.CheckEndedError](expired); !ok || e.Status != idverify.StatusAccepted || !errors.Is(expired, idverify.ErrNotFound) {
			t.Errorf("error of the unopened check = %v, want a *CheckEndedError", expired)
		}
	})
}

func TestSubscriberCheckService_CodeExchange(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t)
	c := srv.Client(idverify.WithVersions(idverify.Versions{SubscriberCheck: "v0.2"}))
	shop := srv.Handle("shop.sandbox.test", idverify.RedirectHandler(srv.Verifier([]string{"shop.sandbox.test"}, nil), func(w http.ResponseWriter, r *http.Request, redirect *idverify.Redirect) {
		check, err := c.SubscriberChecks.Complete(r.Context(), redirect.CheckID, redirect.Code)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_, againErr := c.SubscriberChecks.Complete(r.Context(), redirect.CheckID, redirect.Code)
		fmt.Fprint(w, check.Status, check.Match, check.NoSIMChange, redirect.Query.Get("basket"), errors.Is(againErr, idverify.ErrNotFound))
	}))

	check, err := c.SubscriberChecks.Create(t.Context(), idverify.SubscriberCheckParams{PhoneNumber: "447700900016", RedirectURL: shop + "/verified?basket=a%2Fb"})
	if err != nil {
		t.Fatal(err)
	}
	visit, err := srv.Device().Open(t.Context(), check.CheckURL)
	if err != nil {
		t.Fatal(err)
	}

	if got, want := string(visit.Body), "COMPLETEDyesnoa/btrue"; visit.Status != 200 || strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("response to the device = %d %q, want %q", visit.Status, got, want)
	}
}

func TestSIMCheckService_ListAndTraces(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t)
	c := srv.Client()
	for i := range 23 {
		if _, err := c.SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: matchingNumber, ReferenceID: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}

	var references []string
	for check, err := range c.SIMChecks.All(t.Context(), idverify.ListOptions{Sort: "created_at,asc"}) {
		if err != nil {
			t.Fatal(err)
		}
		references = append(references, check.ReferenceID)
	}
	page, err := c.SIMChecks.List(t.Context(), idverify.ListOptions{Page: 3, Size: 10})
	if err != nil {
		t.Fatal(err)
	}
	traces, err := c.SIMChecks.Traces(t.Context(), page.Items[0].CheckID)
	if err != nil {
		t.Fatal(err)
	}

	if len(references) != 23 || references[0] != "0" || references[22] != "22" {
		t.Errorf("references = %q, want 0 to 22", references)
	}
	if len(page.Items) != 3 || page.Number != 3 || page.TotalPages != 3 || page.TotalElements != 23 {
		t.Errorf("page = %+v, want page 3 of 3 with 3 of 23 checks", page)
	}
	if len(traces) == 0 || len(traces[0].Logs) == 0 {
		t.Errorf("traces = %+v, want a trace with logs", traces)
	}
}

func TestClient_SharesFirstTokenFetch(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	c := srv.Client()

	for err := range concurrently(200, func() error {
		return errorOf(c.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: matchingNumber}))
	}) {
		if err != nil {
			t.Error(err)
		}
	}

	if n := countRequests(srv, "token.create"); n != 1 {
		t.Errorf("%d token requests, want 1", n)
	}
}

func TestClient_TokenLimitedToScope(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t)

	token, err := srv.Client().Token(t.Context(), idverify.ScopeReachability)
	if err != nil {
		t.Fatal(err)
	}

	for path, want := range map[string]int{"/coverage/v0.1/device_ips/192.0.2.2": 200, "/phone_check/v0.1/checks": 403} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		token.SetAuthHeader(r)
		resp, err := srv.HTTPClient().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: status = %d, want %d", path, resp.StatusCode, want)
		}
	}
}

func TestClient_WrongCredentials(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t)
	wrong, err := idverify.NewClient(srv.URL(), idverify.Credentials{ClientID: srv.Credentials().ClientID, ClientSecret: idverify.NewSecret("wrong")}, idverify.WithHTTPClient(srv.HTTPClient()))
	if err != nil {
		t.Fatal(err)
	}
	workspace, err := idverify.NewClient(srv.URL(), srv.ConsoleCredentials(), idverify.WithHTTPClient(srv.HTTPClient()))
	if err != nil {
		t.Fatal(err)
	}

	_, wrongErr := wrong.PhoneChecks.Get(t.Context(), "a")
	_, workspaceErr := workspace.PhoneChecks.Get(t.Context(), "a")

	if e, ok := errors.AsType[*idverify.TokenError](wrongErr); !ok || e.Code != "invalid_client" || !errors.Is(wrongErr, idverify.ErrUnauthorized) {
		t.Errorf("error with a wrong secret = %v, want invalid_client", wrongErr)
	}
	if e, ok := errors.AsType[*idverify.TokenError](workspaceErr); !ok || e.Code != "invalid_scope" || !strings.Contains(workspaceErr.Error(), "NewConsole") {
		t.Errorf("error with workspace credentials = %v, want invalid_scope and a mention of NewConsole", workspaceErr)
	}
}

func TestPhoneCheck_MarshalJSON(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t)
	check, err := srv.Client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: matchingNumber})
	if err != nil {
		t.Fatal(err)
	}

	stored, err := json.Marshal(check)
	if err != nil {
		t.Fatal(err)
	}
	var read idverify.PhoneCheck
	if err := json.Unmarshal(stored, &read); err != nil {
		t.Fatal(err)
	}

	if read != *check {
		t.Errorf("unmarshaled check = %+v, want %+v", read, *check)
	}
}

// countRequests returns the number of requests of an operation.
func countRequests(srv *sandboxfake.Server, operation string) int {
	n := 0
	for _, r := range srv.Requests() {
		if r.Operation == operation {
			n++
		}
	}
	return n
}
