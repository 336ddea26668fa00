package receivertest_test

import (
	"bufio"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/receivertest"
)

// receiverDir contains backends with receivers, as developers write them with common packages.
const receiverDir = "testdata/receivers"

// receiverPrograms are the backends in receiverDir. All receive callbacks and redirects and have a
// probe.
var receiverPrograms = []string{"http.js", "express.js", "server.py", "flask_app.py"}

// receiverHost is the host of the receivers' URLs.
const receiverHost = "shop.example.com"

// change is a textual change of a file.
type change struct{ file, old, new string }

// keyServer serves a key set over TLS.
type keyServer struct {
	keys   *receivertest.Keys
	url    string // of the key set
	caFile string
}

func newKeyServer(t *testing.T) *keyServer {
	t.Helper()
	keys, err := receivertest.NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(keys)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(caFile, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	return &keyServer{keys: keys, url: server.URL + receivertest.KeySetPath, caFile: caFile}
}

// startReceiver runs a program in a copy of receiverDir with the changes, until the test ends. It
// returns the program's URL.
func (s *keyServer) startReceiver(t *testing.T, file string, changes ...change) (url string) {
	t.Helper()
	dir := t.TempDir()
	sources, err := filepath.Glob(receiverDir + "/*" + filepath.Ext(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		writeSource(t, filepath.Join(dir, filepath.Base(source)), string(text), changes)
	}
	return s.run(t, receiverCommand(t, filepath.Join(dir, file)))
}

// writeSource writes a source file with its changes.
func writeSource(t *testing.T, path, text string, changes []change) {
	t.Helper()
	for _, c := range changes {
		if c.file != filepath.Base(path) {
			continue
		}
		if strings.Count(text, c.old) != 1 {
			t.Fatalf("%s does not contain %q exactly once", c.file, c.old)
		}
		text = strings.Replace(text, c.old, c.new, 1)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs a receiver until the test ends and returns the URL that it prints.
func (s *keyServer) run(t *testing.T, command *exec.Cmd) (url string) {
	t.Helper()
	modules, err := filepath.Abs(receiverDir + "/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	command.Env = append(os.Environ(), "HOSTS="+receiverHost, "JWKS_URL="+s.url, "PORT=0", "PYTHONDONTWRITEBYTECODE=1",
		"NODE_PATH="+modules, "NODE_EXTRA_CA_CERTS="+s.caFile, "SSL_CERT_FILE="+s.caFile)
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	command.Stderr = stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
		if output, _ := os.ReadFile(stderr.Name()); t.Failed() {
			t.Logf("standard error of the receiver:\n%s", output)
		}
	})
	lines := bufio.NewScanner(stdout)
	lines.Scan()
	_, url, found := strings.Cut(lines.Text(), "http://")
	if !found {
		t.Fatalf("the receiver prints %q, want its URL", lines.Text())
	}
	go func() { // the receiver must not block when it prints; ends with the receiver
		for lines.Scan() {
		}
	}()
	return "http://" + url
}

// receiverCommand returns the command that runs a receiver.
func receiverCommand(t *testing.T, file string) *exec.Cmd {
	t.Helper()
	const install = "run script/setup interop, which installs "
	switch filepath.Ext(file) {
	case ".js", ".mjs":
		tooltest.Require(t, tooltest.Installed("node"), install+"Node.js")
		_, err := os.Stat(receiverDir + "/node_modules/express")
		tooltest.Require(t, err == nil, install+"Express and http-signature")
		return exec.Command("node", file)
	case ".py":
		python := tooltest.Python(t, "cryptography, flask")
		tooltest.Require(t, python != "", install+"Python with cryptography and Flask")
		return exec.Command(python, file)
	}
	program := filepath.Join(t.TempDir(), "receiver")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, file).CombinedOutput(); err != nil {
		t.Fatalf("build the receiver: %v\n%s", err, output)
	}
	return exec.Command(program)
}
