package fakes

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func startS3rver(t testing.TB) fake {
	url, client, stop := startProgram(t, "s3rver")
	f := newBucket(t, client, url)
	f.close, f.program = stop, true
	return f
}

func startDynalite(t testing.TB) fake {
	url, client, stop := startProgram(t, "dynalite")
	call := func(operation, body string) *http.Request {
		r := request(http.MethodPost, url, []byte(body))
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
		r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
		// The program does not verify signatures.
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=a")
		r.Header.Set("X-Amz-Date", "20260101T000000Z")
		return r
	}
	n := 0
	put := func() *http.Request {
		if n == 0 {
			do(t, client, call("CreateTable", `{"TableName":"checks","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}],"KeySchema":[{"AttributeName":"id","KeyType":"HASH"}],"BillingMode":"PAY_PER_REQUEST"}`))
		}
		n++
		return call("PutItem", fmt.Sprintf(`{"TableName":"checks","Item":{"id":{"S":"%d"},"body":{"S":%q}}}`, n, strings.Repeat("a", len(checkBody))))
	}
	return fake{
		client: client,
		ping:   url,
		read: func() *http.Request {
			fill(t, client, 1, &n, put)
			return call("GetItem", `{"TableName":"checks","Key":{"id":{"S":"1"}}}`)
		},
		create: put,
		list: func() *http.Request {
			fill(t, client, pageSize, &n, put)
			return call("Scan", fmt.Sprintf(`{"TableName":"checks","Limit":%d}`, pageSize))
		},
		close:   stop,
		program: true,
	}
}

// startProgram starts a program of testdata/node with the certificate of httptest, and returns its
// URL and a client that trusts it. It skips the benchmark if the program or Node is not installed.
func startProgram(t testing.TB, name string) (url string, client *http.Client, stop func()) {
	_, err := os.Stat("testdata/node/node_modules/" + name)
	if err == nil {
		_, err = exec.LookPath("node")
	}
	if err != nil {
		t.Skipf("%s is not installed (run script/setup fakes)", name)
	}
	dir := t.TempDir()
	config := writeCertificate(t, dir)
	command := exec.CommandContext(t.Context(), "node", "testdata/node/serve.js", name, dir)
	command.Stderr = os.Stderr
	stdin := must(command.StdinPipe())(t) // the program exits when it is closed
	stdout := must(command.StdoutPipe())(t)
	noError(t, command.Start())
	transport := &http.Transport{TLSClientConfig: config}
	stop = func() {
		transport.CloseIdleConnections()
		stdin.Close()
		command.Wait()
	}
	port, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		stop()
		t.Fatalf("start %s: %v", name, err)
	}
	return "https://127.0.0.1:" + strings.TrimSpace(port), &http.Client{Transport: transport}, stop
}

// writeCertificate writes the certificate of httptest and its key to files in dir, and returns the
// configuration of a client that trusts it.
func writeCertificate(t testing.TB, dir string) *tls.Config {
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	certificate := srv.TLS.Certificates[0]
	key := must(x509.MarshalPKCS8PrivateKey(certificate.PrivateKey))(t)
	for _, file := range []struct {
		name  string
		block *pem.Block
	}{
		{"cert.pem", &pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}},
		{"key.pem", &pem.Block{Type: "PRIVATE KEY", Bytes: key}},
	} {
		noError(t, os.WriteFile(filepath.Join(dir, file.name), pem.EncodeToMemory(file.block), 0o600))
	}
	return srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
}
