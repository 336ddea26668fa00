package fakes

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/sandboxfake"
)

// checkBody is a response body of the size of a check.
var checkBody = []byte(`{"check_id":"` + strings.Repeat("a", 449) + `"}`)

// page is a response body of the size of a page of checks.
var page = bytes.Repeat(checkBody, pageSize)

func startHTTPTest(testing.TB) fake {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/list" {
			w.Write(page)
			return
		}
		w.Write(checkBody)
	}))
	return fake{
		client: srv.Client(),
		ping:   srv.URL,
		read:   func() *http.Request { return request(http.MethodGet, srv.URL, nil) },
		create: func() *http.Request { return request(http.MethodPost, srv.URL, newCheck) },
		list:   func() *http.Request { return request(http.MethodGet, srv.URL+"/list", nil) },
		close:  srv.Close,
	}
}

var newCheck = []byte(`{"phone_number":"447700900012"}`)

func startSandbox(t testing.TB, opts ...sandboxfake.Option) fake {
	srv := must(sandboxfake.Start(opts...))(t)
	client := srv.HTTPClient()
	var token, check string
	stored := 0
	authorized := func(method, path string, body []byte) *http.Request {
		if token == "" {
			token = sandboxToken(t, srv)
		}
		r := request(method, srv.URL()+path, body)
		r.Header.Set("Authorization", "Bearer "+token)
		if body != nil {
			r.Header.Set("Content-Type", "application/json")
		}
		return r
	}
	create := func() *http.Request {
		stored++
		return authorized(http.MethodPost, "/phone_check/v0.1/checks", newCheck)
	}
	return fake{
		client: client,
		ping:   srv.URL() + "/.well-known/jwks.json",
		read: func() *http.Request {
			if check == "" {
				check = field(t, do(t, client, create()), "check_id")
			}
			return authorized(http.MethodGet, "/phone_check/v0.1/checks/"+check, nil)
		},
		create: create,
		list: func() *http.Request {
			fill(t, client, pageSize, &stored, create)
			return authorized(http.MethodGet, fmt.Sprint("/phone_check/v0.1/checks?size=", pageSize), nil)
		},
		close: func() { srv.Close() },
	}
}

// sandboxToken fetches a token with the form that the protocol requires.
func sandboxToken(t testing.TB, srv *sandboxfake.Server) string {
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	w.WriteField("grant_type", "client_credentials")
	w.WriteField("scope", "phone_check")
	w.Close()
	r := request(http.MethodPost, srv.URL()+"/oauth2/v1/token", form.Bytes())
	r.Header.Set("Content-Type", w.FormDataContentType())
	r.SetBasicAuth(srv.Credentials().ClientID, srv.Credentials().ClientSecret.Reveal())
	return field(t, do(t, srv.HTTPClient(), r), "access_token")
}
