package conformance_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/conformance"
)

// staticTransport returns the same response to every request.
type staticTransport struct {
	status                int
	contentType, location string
	body                  []byte
}

func (a staticTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {a.contentType}}
	if a.location != "" {
		header.Set("Location", a.location)
	}
	return &http.Response{StatusCode: a.status, Header: header, Body: io.NopCloser(bytes.NewReader(a.body)), Request: r}, nil
}

// FuzzRun runs the suite against services with arbitrary responses. Run must terminate, and its
// report must not contain secrets or numbers.
func FuzzRun(f *testing.F) {
	const all = `{"access_token":"a","token_type":"bearer","check_id":"c","status":"COMPLETED","match":true,"no_sim_change":true,"charge_amount":0,"charge_currency":"API","created_at":"2020-06-01T16:43:30+0000",` +
		`"_links":{"check_url":{"href":"https://service.test/open"}},"_embedded":{"checks":[{"check_id":"c"},null,1],"credentials":[{"client_id":"a","client_secret":"b"}]},` +
		`"project_id":"p","mode":"sandbox","network_id":"1","network_name":"n","country_code":"GB","supported_products":["PhoneCheck"],"type":"https://a/#b","title":"OK","detail":"d",` +
		`"keys":[{"kty":"RSA","use":"sig","alg":"RS256","kid":"k","n":"AQAB","e":"AQAB"}]}`
	f.Add(200, "application/json", "", all)
	f.Add(201, "application/json", "", all)
	f.Add(302, "application/json", "https://example.com/conformance?from=conformance&a=%2f+b&check_id=c&code=d&authorization=YQ%3D%3D&date=Yg%3D%3D", all)
	f.Add(302, "text/html", "/again", "<html>")
	f.Add(404, "application/problem+json", "", `{"type":"https://a/#b","title":"Not Found","status":404,"detail":"d"}`)
	f.Add(200, "", "", `{"check_id":{},"charge_amount":"0","_links":[],"_embedded":{"checks":{}},"keys":[[]]}`)
	f.Add(200, "application/json", "", "null")
	f.Add(500, "", "%zz", "")
	f.Fuzz(func(t *testing.T, status int, contentType, location, body string) {
		if status < 200 || status > 599 || status == http.StatusTooManyRequests {
			t.Skip("not a final status, or one that the suite waits for")
		}
		receiver, err := conformance.NewReceiver("https://receiver.test/")
		if err != nil {
			t.Fatal(err)
		}
		credentials := idverify.Credentials{ClientID: "id", ClientSecret: idverify.NewSecret("s3cret")}

		report, err := conformance.Run(t.Context(), conformance.Config{
			BaseURL:    "https://service.test",
			HTTPClient: &http.Client{Transport: staticTransport{status: status, contentType: contentType, location: location, body: []byte(body)}},
			Project:    credentials,
			Workspace:  credentials,
			Receiver:   receiver,
			Patience:   1,
		})

		if err != nil {
			t.Fatal(err)
		}
		if len(report.Findings) != len(conformance.Rules()) || len(report.Failed()) == 0 {
			t.Errorf("the suite does not fail for a service with a single response:\n%s", text(t, report))
		}
		if table := text(t, report); strings.Contains(table, "4477009") || strings.Contains(table, "s3cret") {
			t.Errorf("the report contains a number or a secret:\n%s", table)
		}
	})
}

// FuzzSplitRedirect checks that the remaining query is unchanged.
func FuzzSplitRedirect(f *testing.F) {
	for _, seed := range []string{
		"https://example.com/back?check_id=c&authorization=YQ%3D%3D&date=Yg%3D%3D",
		"https://example.com/back?a=%2f+b&authorization=YQ==&date=Yg==&x",
		"https://example.com/back?authorization=YQ%3D%3D&authorization=YQ%3D%3D&date=Yg%3D%3D",
		"https://example.com/back?authorization=%zz&date=Yg%3D%3D",
		"?&&=&authorization&date",
		":",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, location string) {
		query, authorization, date, err := conformance.SplitRedirect(location)
		if err != nil {
			return
		}
		conformance.ParseAuthorization(authorization)
		conformance.ParseAuthorization(date)
		for segment := range strings.SplitSeq(query, "&") {
			if !strings.Contains(location, segment) {
				t.Errorf("%q was re-encoded: the signature would not verify", segment)
			}
		}
	})
}

func TestParseAuthorization_Invalid(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ text, says string }{
		{``, "scheme"},
		{`Bearer x`, "scheme"},
		{`Signature keyId="k",algorithm="hs2019",headers="date",signature="YQ=="`, "rsa-sha256"},
		{`Signature algorithm="rsa-sha256",headers="date",signature="YQ=="`, "keyId"},
		{`Signature keyId="k",algorithm="rsa-sha256",headers="date",signature="?"`, "base64"},
		{`Signature keyId="k",algorithm="rsa-sha256",headers="date",signature=""`, "base64"},
		{`Signature keyId=k,algorithm="rsa-sha256"`, "list"},
	} {
		if err := conformance.ParseAuthorization(row.text); err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: error = %v, want one that contains %q", row.text, err, row.says)
		}
	}
}
