package signature_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/signature"
)

// expensive returns requests that have many forms, and keys that are all examined.
func expensive(tb testing.TB) (map[string]*http.Request, *signature.ExplainOptions) {
	opts := &signature.ExplainOptions{Keys: make(map[string]signature.KeySource)}
	for i := range 100 {
		opts.Keys[fmt.Sprint("set ", i)] = signature.StaticKeys{fmt.Sprint(i): &keys()["strong"].PublicKey, keyID: &keys()["unpublished"].PublicKey}
		opts.Paths = append(opts.Paths, strings.Repeat("/a%2Fb", 500)+fmt.Sprint(i)+"?a=b&c=%20&d=+")
	}
	many := func(target, content string) *http.Request {
		r := receivedCallback(tb, target, content, signature.SignerOptions{})
		r.Header.Set("Date", now.Add(time.Hour).Format(http.TimeFormat)) // so that no form is right
		for _, name := range []string{"X-Forwarded-Host", "X-Original-Host", "Forwarded"} {
			for i := range 100 {
				r.Header.Add(name, strings.Repeat(fmt.Sprintf("host=h%d.example.com,h%d.example.com:8443,", i, i), 40))
			}
		}
		for _, name := range []string{"X-Original-URI", "X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Prefix"} {
			for i := range 100 {
				r.Header.Add(name, fmt.Sprintf("/%d%s?q=%d", i, strings.Repeat("/x%2Fy", 600), i))
			}
		}
		return r
	}
	forger := must(signature.NewSigner("forged", keys()["service-2"], nil))(tb)
	forged := many(target, body)
	noError(tb, forger.SignCallback(forged, []byte(body)))
	opposite := receivedCallback(tb, target, `{"a":`+strings.Repeat("[1,", 2000)+"2"+strings.Repeat("]", 2000)+"}", signature.SignerOptions{})
	setBody(opposite, strings.Repeat("[[1],", 2000)+"2"+strings.Repeat("]", 2000))
	escaped := receivedCallback(tb, target, "a", signature.SignerOptions{})
	setBody(escaped, `["`+strings.Repeat("ë", 8000)+`"]`)
	return map[string]*http.Request{
		"short target": many("/a?b=c", body),
		"long path":    many("/"+strings.Repeat("a%2Fb/", 650), body),
		"long query":   many("/a?"+strings.Repeat("a=%20+b&", 500), body),
		"huge target":  many("/"+strings.Repeat("a%2Fb/", 10000), body),
		"forged":       forged,
		"nested body":  opposite,
		"escaped body": escaped,
	}, opts
}

func TestVerifier_ExplainLimits(t *testing.T) {
	t.Parallel()
	requests, opts := expensive(t)
	for name, r := range requests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, keys, forms, bodies, size := signature.ExplainCost(newVerifier(t, signature.VerifierOptions{}), r, opts)

			if got.Explained {
				t.Fatalf("got %+v, want an unexplained message", got)
			}
			t.Logf("%d operations with keys, %d forms, %d bodies, %d bytes", keys, forms, bodies, size)
			if keys > 64 || forms > 4096 || bodies > 150 || size > 4<<20+64<<10 {
				t.Errorf("%d operations with keys, %d forms, %d bodies, %d bytes; want at most 64, 4,096, 150 and 4 MiB", keys, forms, bodies, size)
			}
			// Otherwise, the request does not test the limit.
			switch {
			case name == "forged" && keys != 64:
				t.Errorf("%d operations with keys, want 64", keys)
			case strings.HasSuffix(name, " body") && (bodies < 40 || size < 500_000):
				t.Errorf("%d bodies, %d bytes, want at least 40 and 500,000", bodies, size)
			case name == "escaped body" && (size < 2<<20-50_000 || size > 2<<20+1000): // the next form is larger
				t.Errorf("%d bytes, want about 2 MiB", size)
			case name != "forged" && !strings.HasSuffix(name, " body") && (forms == 0 || size < 2<<20):
				t.Errorf("%d forms, %d bytes, want at least 2 MiB", forms, size)
			}
		})
	}
}

// FuzzExplain changes a signed message. Explain must agree with the verifier, keep the request as
// it is, and repeat nothing from a message that the service did not sign.
func FuzzExplain(f *testing.F) {
	callback := receivedCallback(f, target, body, signature.SignerOptions{})
	redirect := receivedRedirect(f, "/back?check_id=c1&code=x")
	f.Add("POST", target, host, callback.Header.Get("Authorization"), now.Format(http.TimeFormat), callback.Header.Get("Digest"), "phone_check", "X-Forwarded-Host", "app", []byte(body))
	f.Add("POST", "/x"+target, "192.0.2.1", callback.Header.Get("Authorization"), now.Format(time.RFC850), callback.Header.Get("Digest"), "phone_check,phone_check", "Forwarded", "for=1;host=api.example.com", []byte(body+"\n"))
	f.Add("GET", redirect.RequestURI, "app", "", "", "", "", "X-Original-Uri", "/back%2F?%zz", []byte(nil))
	f.Fuzz(func(t *testing.T, method, uri, at, authorization, date, digest, kind, name, value string, content []byte) {
		v := newVerifier(t, signature.VerifierOptions{})
		r := &http.Request{Method: method, RequestURI: uri, Host: at, Body: restored(content), ContentLength: int64(len(content)), Header: http.Header{}}
		for key, v := range map[string]string{"Authorization": authorization, "Date": date, "Digest": digest, "X-Service-Callback": kind, http.CanonicalHeaderKey(name): value} {
			if v != "" {
				r.Header[key] = append(r.Header[key], v)
			}
		}
		before := fmt.Sprint(r.Method, r.Host, r.RequestURI, r.Header)

		got, keys, forms, bodies, size := signature.ExplainCost(v, r, &signature.ExplainOptions{Paths: []string{target}, Keys: map[string]signature.KeySource{"other": serviceKeys()}})

		if after := fmt.Sprint(r.Method, r.Host, r.RequestURI, r.Header); after != before {
			t.Errorf("request after Explain = %q, want %q", after, before)
		}
		if left, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(left, content) {
			t.Errorf("body after Explain = %q, %v; want %q", left, err, content)
		}
		if keys > 64 || forms > 4096 || bodies > 150 || size > 4<<20+len(uri)+len(content)+1<<20 {
			t.Errorf("%d operations with keys, %d forms, %d bodies, %d bytes", keys, forms, bodies, size)
		}
		r.Body = restored(content)
		_, err := v.VerifyCallback(r)
		if err != nil {
			_, err = v.VerifyRedirect(r)
		}
		if got.Verified != (err == nil) || !got.Explained && len(got.Changes) == 0 {
			t.Errorf("got %+v, the verifier returns %v", got, err)
		}
		for _, c := range got.Changes {
			if strings.ContainsAny(c.String(), "\r\n") || c.Part == "" || c.Found == "" {
				t.Errorf("change %q, want one line with a part", c)
			}
		}
	})
}

// explainRejections sends an explanation of each message that next rejects with 400.
func explainRejections(v *signature.Verifier, explanations chan<- signature.Explanation, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := &statusRecorder{ResponseWriter: w}
		next.ServeHTTP(recorder, r)
		if recorder.status == http.StatusBadRequest {
			explanations <- v.Explain(r.Context(), r, nil)
		}
	})
}

// statusRecorder records the status of a response.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (w *statusRecorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Nothing that Explain finds reaches a response: the handlers respond alike to all invalid
// messages, with and without middleware that explains them. The middleware reads the body after the
// handler.
func TestVerifier_ExplainInMiddleware(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprint("HTTP/", version), func(t *testing.T) {
			t.Parallel()
			explanations := make(chan signature.Explanation, 1)
			v := newVerifier(t, signature.VerifierOptions{Logger: slog.New(slog.DiscardHandler)})
			handler := v.RequireCallback(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			mux := http.NewServeMux()
			mux.Handle("/plain/", http.StripPrefix("/plain", handler))
			mux.Handle("/", explainRejections(v, explanations, handler))
			server := serveVersion(t, version, func(string) http.Handler { return mux })
			request := func(path, content string, edit func(*http.Request)) string {
				r := callbackRequest(t, server.URL+path)
				r.Host = host
				sign(t, r, body)
				r.Body, r.GetBody, r.ContentLength = restored([]byte(content)), nil, int64(len(content))
				edit(r)
				status, header, text := send(t, server.Client(), r)
				header.Del("Date")
				return fmt.Sprint(status, header, text)
			}

			for _, row := range []struct {
				name    string
				content string
				edit    func(*http.Request)
				want    string
			}{
				{"body read by the verifier", body + "\n", func(*http.Request) {}, "body: signed without the line break"},
				{"body not read by the verifier", body, func(r *http.Request) { r.Host = "other.example.com" }, "host: signed for api.example.com"},
				{"body and host", body + "\n", func(r *http.Request) { r.Host = "other.example.com" }, "host: signed for api.example.com"},
				{"forged", body, func(r *http.Request) { r.Header.Set("Authorization", "Signature x") }, "not explained: "},
			} {
				explained := request("/callbacks", row.content, row.edit)
				got := linesOf(<-explanations)
				plain := request("/plain/callbacks", row.content, row.edit)

				wantEqual(t, plain, explained, "%s: response with Explain", row.name)
				if !strings.HasPrefix(explained, "400 ") || !strings.HasPrefix(got[0], row.want) {
					t.Errorf("%s: response %s, lines %q; want 400 and %q", row.name, explained, got, row.want)
				}
			}
		})
	}
}

// The changes repeat nothing of a message, except a host for which the service signed it.
func TestVerifier_ExplainPrivacy(t *testing.T) {
	t.Parallel()
	secrets := []string{"447700900123", "192.0.2.9", "s3cret", "tenant=", "callbacks", "app.internal"}
	for _, row := range explainCallbackRows {
		r := receivedCallback(t, "/callbacks/447700900123?tenant=s3cret", `{"phone_number":"447700900123"}`, signature.SignerOptions{})
		row.change(r)
		secrets := append(secrets, r.Header.Get("Authorization")[:min(40, len(r.Header.Get("Authorization")))])
		r.Header.Set("X-Original-Host", "app.internal")
		r.Header.Set("X-Forwarded-For", "192.0.2.9")

		for _, c := range newVerifier(t, signature.VerifierOptions{}).Explain(context.Background(), r, nil).Changes {
			for _, secret := range secrets {
				if secret != "" && strings.Contains(c.String(), secret) {
					t.Errorf("%s: change %q contains %q", row.name, c, secret)
				}
			}
		}
	}
}
