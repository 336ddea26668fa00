package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// newService starts a fake of the service, and returns the environment variables for a program that
// connects to it over TLS.
func newService(t *testing.T, options ...sandboxfake.Option) (*sandboxfake.Server, map[string]string) {
	t.Helper()
	srv := sandboxfake.New(t, options...)
	return srv, environment(t, srv, srv.Credentials())
}

func environment(t *testing.T, srv *sandboxfake.Server, c idverify.Credentials) map[string]string {
	t.Helper()
	return map[string]string{
		baseURLVariable:      srv.URL(),
		clientIDVariable:     c.ClientID,
		clientSecretVariable: c.ClientSecret.Reveal(),
		caFileVariable:       writeFile(t, string(srv.CACertPEM())),
	}
}

func writeFile(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	noError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// proxyOf returns the proxy of env as http.ProxyFromEnvironment does for that of the process.
func proxyOf(env map[string]string) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		host, excluded := r.URL.Hostname(), env["NO_PROXY"]
		addr, _ := netip.ParseAddr(host)
		proxy, err := url.Parse(env["HTTPS_PROXY"])
		if err != nil || proxy.Host == "" || addr.IsLoopback() || excluded != "" && strings.HasSuffix(host, excluded) {
			return nil, nil
		}
		return proxy, nil
	}
}

func TestProgram_Client(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	file := must(json.Marshal(map[string]string{"client_id": env[clientIDVariable], "client_secret": env[clientSecretVariable]}))(t)
	fromFile := map[string]string{
		baseURLVariable: env[baseURLVariable], caFileVariable: env[caFileVariable],
		credentialsFileVariable: writeFile(t, string(file)+"\n"),
	}

	for name, env := range map[string]map[string]string{"variables": env, "file": fromFile} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := must(newProgram(env).client())(t)

			_, err := client.PhoneChecks.List(t.Context(), idverify.ListOptions{})

			if err != nil {
				t.Errorf("List failed over TLS with the CA file: %v", err)
			}
			requests := srv.Requests()
			if got := requests[len(requests)-1].Header.Get("User-Agent"); !strings.HasPrefix(got, "idverify-program/devel idverify-go/") {
				t.Errorf("User-Agent = %q", got)
			}
		})
	}
}

func TestProgram_ClientErrors(t *testing.T) {
	t.Parallel()
	valid := map[string]string{baseURLVariable: "https://api.example.com", clientIDVariable: "client-1", clientSecretVariable: "secret-1"}
	missing := filepath.Join(t.TempDir(), "secret-path")
	for _, row := range []struct {
		name   string
		change map[string]string
		want   string
	}{
		{"no base URL", map[string]string{baseURLVariable: ""}, "IDVERIFY_BASE_URL is missing"},
		{"base URL without TLS", map[string]string{baseURLVariable: "http://user:secret-1@api.example.com"}, "IDVERIFY_BASE_URL: the base URL must begin with https://"},
		{"no credentials", map[string]string{clientIDVariable: "", clientSecretVariable: ""}, "IDVERIFY_CLIENT_ID and IDVERIFY_CLIENT_SECRET are missing (set them, or IDVERIFY_CREDENTIALS_FILE)"},
		{"no client ID", map[string]string{clientIDVariable: ""}, "IDVERIFY_CLIENT_ID is missing"},
		{"no client secret", map[string]string{clientSecretVariable: ""}, "IDVERIFY_CLIENT_SECRET is missing"},
		{"newline", map[string]string{clientSecretVariable: "secret-1\n"}, "IDVERIFY_CLIENT_ID, IDVERIFY_CLIENT_SECRET: the client secret begins or ends with white space"},
		{"two sources", map[string]string{credentialsFileVariable: missing}, "IDVERIFY_CREDENTIALS_FILE is set together with IDVERIFY_CLIENT_ID or IDVERIFY_CLIENT_SECRET"},
		{"missing file", map[string]string{clientIDVariable: "", clientSecretVariable: "", credentialsFileVariable: missing}, "IDVERIFY_CREDENTIALS_FILE: read the file: no such file or directory"},
		{"file without JSON", map[string]string{clientIDVariable: "", clientSecretVariable: "", credentialsFileVariable: writeFile(t, `secret-1`)}, `IDVERIFY_CREDENTIALS_FILE: the file is not JSON with "client_id" and "client_secret"`},
		{"file without secret", map[string]string{clientIDVariable: "", clientSecretVariable: "", credentialsFileVariable: writeFile(t, `{"client_id":"client-1"}`)}, "IDVERIFY_CREDENTIALS_FILE: the client secret is missing"},
		{"missing CA file", map[string]string{caFileVariable: missing}, "IDVERIFY_CA_FILE: read the file: no such file or directory"},
		{"CA file without certificate", map[string]string{caFileVariable: writeFile(t, "secret-1")}, "IDVERIFY_CA_FILE: the file contains no PEM certificate"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			env := maps.Clone(valid)
			maps.Copy(env, row.change)

			_, err := newProgram(env).client()

			if err == nil || !strings.HasPrefix(err.Error(), row.want) {
				t.Errorf("error = %v, want %q", err, row.want)
			}
			if err != nil && (strings.Contains(err.Error(), "secret-1") || strings.Contains(err.Error(), "secret-path")) {
				t.Errorf("the error contains a value: %v", err)
			}
		})
	}
}
