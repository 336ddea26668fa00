package openapi

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/tooltest"
)

// sandboxfake is the program, with the main module's dependencies.
var sandboxfake = tooltest.Program{Root: "../../..", Package: "./cmd/sandboxfake"}

func TestMain(m *testing.M) {
	defer sandboxfake.Remove()
	m.Run()
}

// program is a running sandboxfake. The fields with tags are those that -json prints.
type program struct {
	URL          string `json:"url"`
	CAFile       string `json:"ca_file"`
	ControlToken string `json:"control_token"`
	Project      struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
	} `json:"project"`

	client *http.Client // trusts the CA
}

// start runs the program until the test ends.
func start(t *testing.T) *program {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), sandboxfake.Build(t), "-json", "-quiet", "-fixed-keys", "-seed", "1")
	cmd.Env, cmd.Stderr = append(os.Environ(), "TMPDIR="+t.TempDir()), os.Stderr
	line := must(tooltest.Start(t, cmd).ReadBytes('\n'))(t)
	p := &program{}
	noError(t, json.Unmarshal(line, p))
	pem := must(os.ReadFile(p.CAFile))(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	p.client = &http.Client{Transport: transport, Timeout: time.Minute}
	return p
}
