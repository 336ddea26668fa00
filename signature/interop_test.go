package signature_test

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/signature"
)

// job is a request to testdata/interop/interop.js.
type job struct {
	Op       string            `json:"op"`
	Key      string            `json:"key"`
	KeyID    string            `json:"keyId"`
	Host     string            `json:"host"`
	URL      string            `json:"url"`
	Date     string            `json:"date,omitempty"`
	Kind     string            `json:"kind,omitempty"`
	Body     string            `json:"body"`
	Encoding string            `json:"encoding,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
}

// result is the response to a job.
type result struct {
	OK      bool              `json:"ok"`
	Error   string            `json:"error"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
}

// node runs the jobs with npm http-signature. If that is not installed, it skips the test, or fails
// it if IDVERIFY_INTEROP is set, as in continuous integration.
func node(t *testing.T, jobs []job) []result {
	t.Helper()
	const dir = "testdata/interop"
	probe := exec.CommandContext(t.Context(), "node", "-e", "require('http-signature')")
	probe.Dir = dir
	tooltest.Require(t, probe.Run() == nil, "run script/setup interop, which installs Node.js and http-signature")
	input := must(json.Marshal(jobs))(t)
	cmd := exec.CommandContext(t.Context(), "node", "interop.js")
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, bytes.NewReader(input), os.Stderr
	output := must(cmd.Output())(t)
	var results []result
	if err := json.Unmarshal(output, &results); err != nil || len(results) != len(jobs) {
		t.Fatalf("%d results for %d jobs, error %v", len(results), len(jobs), err)
	}
	return results
}

// interopKeys returns the service's key pair as PEM.
func interopKeys(t *testing.T) (private, public string) {
	t.Helper()
	key := keys()["service-1"]
	spki := must(x509.MarshalPKIXPublicKey(&key.PublicKey))(t)
	private = string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	return private, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki}))
}

func TestInterop_VerifyNodeCallbacks(t *testing.T) {
	t.Parallel()
	private, _ := interopKeys(t)
	var jobs []job
	for _, encoding := range []string{"hex", "base64"} {
		for _, query := range unusualQueries {
			jobs = append(jobs, job{Op: "signCallback", Key: private, KeyID: keyID, Host: host, URL: "/a%2Fb?" + query, Date: now.Format(http.TimeFormat), Kind: "phone_check", Body: body + "ä", Encoding: encoding})
		}
	}
	v := newVerifier(t, signature.VerifierOptions{})

	for i, result := range node(t, jobs) {
		w := newCallback()
		w.Target = jobs[i].URL
		withBody(jobs[i].Body)(w)
		for _, name := range []string{"date", "x-service-callback", "digest", "authorization"} {
			w.Set(name, result.Headers[name])
		}

		if _, err := v.VerifyCallback(request(t, w)); err != nil {
			t.Errorf("%s digest, %s: error = %v, Node.js error: %s", jobs[i].Encoding, jobs[i].URL, err, result.Error)
		}
	}
}

func TestInterop_SignCallbacksForNode(t *testing.T) {
	t.Parallel()
	_, public := interopKeys(t)
	var jobs []job
	for _, inBase64 := range []bool{false, true} {
		s := newSigner(t, signature.SignerOptions{Base64Digest: inBase64, Now: time.Now})
		for _, query := range unusualQueries {
			r := callbackRequest(t, "https://"+host+"/a%2Fb?"+query)
			noError(t, s.SignCallback(r, []byte(body)))
			headers := map[string]string{"host": host}
			for name := range r.Header {
				headers[strings.ToLower(name)] = r.Header.Get(name)
			}
			jobs = append(jobs, job{Op: "verifyCallback", Key: public, KeyID: keyID, URL: r.URL.RequestURI(), Body: body, Headers: headers})
		}
	}
	good := len(jobs)
	for _, forged := range jobs[:good] {
		forged.URL += "x"
		jobs = append(jobs, forged)
		forged.URL, forged.Body = strings.TrimSuffix(forged.URL, "x"), body+" "
		jobs = append(jobs, forged)
	}

	for i, result := range node(t, jobs) {
		if want := i < good; result.OK != want {
			t.Errorf("job %d, %s: verified = %v, want %v; Node.js error: %s", i, jobs[i].URL, result.OK, want, result.Error)
		}
	}
}

func TestInterop_VerifyNodeRedirects(t *testing.T) {
	t.Parallel()
	private, _ := interopKeys(t)
	var jobs []job
	for _, query := range unusualQueries {
		jobs = append(jobs, job{Op: "signRedirect", Key: private, KeyID: keyID, Host: host, URL: "/back/a%20b?" + query, Date: now.Format(http.TimeFormat)})
	}
	v := newVerifier(t, signature.VerifierOptions{})

	for i, result := range node(t, jobs) {
		w := newRedirect()
		w.Drop("Date")
		w.Target = result.URL

		if _, err := v.VerifyRedirect(request(t, w)); err != nil {
			t.Errorf("%s: error = %v, Node.js error: %s", jobs[i].URL, err, result.Error)
		}
	}
}

func TestInterop_SignRedirectsForNode(t *testing.T) {
	t.Parallel()
	_, public := interopKeys(t)
	s := newSigner(t, signature.SignerOptions{Now: time.Now})
	var jobs []job
	for _, query := range unusualQueries {
		u := &url.URL{Scheme: "https", Host: host, Path: "/back/a b", RawQuery: query}
		noError(t, s.SignRedirect(u))
		jobs = append(jobs, job{Op: "verifyRedirect", Key: public, KeyID: keyID, Host: host, URL: u.RequestURI()})
	}
	good := len(jobs)
	for _, forged := range jobs[:good] {
		forged.URL += "&x"
		jobs = append(jobs, forged)
	}

	for i, result := range node(t, jobs) {
		if want := i < good; result.OK != want {
			t.Errorf("job %d, %s: verified = %v, want %v; Node.js error: %s", i, jobs[i].URL, result.OK, want, result.Error)
		}
	}
}
