package idverify_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	idverify "github.com/idverify/idverify-go"
)

// newTransportClient returns a Client whose transport is respond, except for token requests.
func newTransportClient(t testing.TB, respond func(*http.Request) (*http.Response, error), opts ...idverify.Option) *idverify.Client {
	t.Helper()
	opts = append([]idverify.Option{idverify.WithHTTPClient(&http.Client{Transport: tokenTransport(respond)}), idverify.WithRetry(fastRetries)}, opts...)
	c, err := idverify.NewClient("https://idverify.sandbox.test", credentials, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// response returns a response with status and body.
func response(status int, body []byte) *http.Response {
	return &http.Response{StatusCode: status, Header: make(http.Header), Body: io.NopCloser(bytes.NewReader(body))}
}

type tokenTransport func(*http.Request) (*http.Response, error)

func (f tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == tokenPath {
		w := httptest.NewRecorder()
		io.WriteString(w, `{"access_token":"token-1","expires_in":3600}`)
		return w.Result(), nil
	}
	return f(r)
}

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// newTokenClient returns a client that makes one attempt. Its transport returns respond() for every
// request.
func newTokenClient(t testing.TB, respond func() *http.Response) *idverify.Client {
	t.Helper()
	c, err := idverify.NewClient("https://idverify.sandbox.test", credentials, withoutRetries, idverify.WithHTTPClient(&http.Client{
		Transport: roundTripperFunc(func(*http.Request) (*http.Response, error) { return respond(), nil }),
	}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClient_ResponseWithoutBody(t *testing.T) {
	t.Parallel()
	c := newTransportClient(t, func(r *http.Request) (*http.Response, error) {
		io.Copy(io.Discard, r.Body)
		return &http.Response{StatusCode: http.StatusCreated}, nil
	})

	_, err := c.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012"})

	if _, ok := errors.AsType[*idverify.DecodeError](err); !ok {
		t.Errorf("error = %v, want a DecodeError", err)
	}
}
