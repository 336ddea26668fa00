package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/signature"
)

// tunnel starts a public HTTPS server, with its own certificate, that forwards requests to the
// program that startProgram starts with the tunnel's URL.
func tunnel(t *testing.T, keepHost bool, startProgram func(publicURL string) announced) (a announced, phone *http.Client) {
	t.Helper()
	ready := make(chan *httputil.ReverseProxy, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxy := <-ready
		ready <- proxy
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	a = startProgram(server.URL)
	local, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	ready <- &httputil.ReverseProxy{
		Transport: a.client(t).Transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(local)
			r.SetXForwarded()
			r.Out.Header.Set("X-Forwarded-Host", "evil.example")
			if keepHost {
				r.Out.Host = r.In.Host
			}
		},
	}
	return a, server.Client()
}

// All parties reach the program through a tunnel, and use the links that it returns.
func TestProgram_PublicURLFlag(t *testing.T) {
	t.Parallel()
	for name, keepHost := range map[string]bool{"tunnel that rewrites Host": false, "tunnel that keeps Host": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, phone := tunnel(t, keepHost, func(publicURL string) announced {
				_, a := startJSON(t, "-public-url", publicURL)
				return a
			})
			if !strings.HasPrefix(a.URL, "https://127.0.0.1:") || a.URL == a.PublicURL {
				t.Fatalf("url = %s, public_url = %s, want a local URL and that of the tunnel", a.URL, a.PublicURL)
			}
			credentials := idverify.Credentials{ClientID: a.Project.ClientID, ClientSecret: idverify.NewSecret(a.Project.ClientSecret)}
			client, err := idverify.NewClient(a.PublicURL, credentials, idverify.WithHTTPClient(phone))
			if err != nil {
				t.Fatal(err)
			}
			receiver := newShop(t, client)

			t.Run("v0.1", func(t *testing.T) {
				check, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", CallbackURL: receiver.URL + "/callbacks"})
				if err != nil {
					t.Fatal(err)
				}
				response, err := phone.Get(check.CheckURL)
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()

				callback := <-receiver.callbacks

				if !strings.HasPrefix(check.CheckURL, a.PublicURL+"/") || callback.CheckID != check.CheckID || callback.Match != idverify.VerdictYes {
					t.Errorf("Check URL %s, callback %s, want the tunnel's URL and a match", check.CheckURL, callback.Body)
				}
			})
			t.Run("v0.2", func(t *testing.T) {
				client := client.WithVersions(idverify.Versions{PhoneCheck: "v0.2"})
				check, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900013", RedirectURL: receiver.URL + "/back?order=a+b"})
				if err != nil {
					t.Fatal(err)
				}
				response, err := phone.Get(check.CheckURL) // follows the redirect to the shop
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()
				if response.StatusCode != http.StatusOK {
					t.Fatalf("the shop responds with %d, want 200 to a redirect with a valid signature", response.StatusCode)
				}
				redirect := <-receiver.redirects

				check, err = client.PhoneChecks.Complete(t.Context(), redirect.CheckID, redirect.Code)

				if err != nil || check.Match != idverify.VerdictNo {
					t.Errorf("Complete = %+v, %v, want a check that does not match", check, err)
				}
			})
		})
	}
}

// shop is a customer's web server, which verifies callbacks and redirects.
type shop struct {
	*httptest.Server
	callbacks chan *idverify.Callback
	redirects chan *idverify.Redirect
}

func newShop(t *testing.T, client *idverify.Client) *shop {
	t.Helper()
	s := &shop{callbacks: make(chan *idverify.Callback, 8), redirects: make(chan *idverify.Redirect, 8)}
	mux := http.NewServeMux()
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	keys, err := client.NewJWKS(nil)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := signature.NewVerifier(keys, []string{strings.TrimPrefix(s.URL, "http://")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle("/callbacks", idverify.CallbackHandler(verifier, func(_ context.Context, c *idverify.Callback) error {
		s.callbacks <- c
		return nil
	}))
	mux.Handle("/back", idverify.RedirectHandler(verifier, func(_ http.ResponseWriter, _ *http.Request, r *idverify.Redirect) { s.redirects <- r }))
	return s
}

// Without a tunnel, the certificate of the program is valid for the public host.
func TestProgram_PublicURLCertificate(t *testing.T) {
	t.Parallel()
	_, a := startJSON(t, "-public-url", "https://Sandbox.example.com:0")
	cert, err := os.ReadFile(a.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	_, port, _ := strings.Cut(strings.TrimPrefix(a.URL, "https://"), ":")

	conn, err := tls.Dial("tcp", strings.TrimPrefix(a.URL, "https://"), &tls.Config{RootCAs: roots, ServerName: "sandbox.example.com"})

	if err != nil {
		t.Fatalf("a client that trusts the CA file rejects the public host: %v", err)
	}
	conn.Close()
	if want := "https://sandbox.example.com:" + port; a.PublicURL != want {
		t.Errorf("public_url = %s, want %s: port 0 is that of the listener", a.PublicURL, want)
	}
}
