package openapi

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// buildDir contains the built program. TestMain creates and removes it.
var buildDir string

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "openapi-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(buildDir)
	os.Exit(code)
}

// buildProgram builds sandboxfake, with the main module's dependencies, and returns its path.
var buildProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "sandboxfake")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Dir = "../../../cmd/sandboxfake"
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build sandboxfake: %w\n%s", err, output)
	}
	return path, nil
})

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
	path, err := buildProgram()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-json", "-quiet", "-fixed-keys", "-seed", "1")
	cmd.Env, cmd.Stderr = append(os.Environ(), "TMPDIR="+t.TempDir()), os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	p := &program{}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(line, p); err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(p.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	p.client = &http.Client{Transport: transport, Timeout: time.Minute}
	return p
}
