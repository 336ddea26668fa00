package browsertest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A new user copies the command of a receiver into a terminal, and gets a verified callback.
func TestReceiverPanel(t *testing.T) {
	t.Parallel()
	p := start(t)
	pg := open(t, p)
	pg.allowClipboard()
	pg.view("receiver")
	pg.click("#receiver-show-program")

	for _, row := range []struct{ language, tool, text string }{
		{"node", "node", "node:http"},
		{"python", "python3", "http.server"},
		{"go", "go", "package main"},
	} {
		t.Run(row.language, func(t *testing.T) {
			if _, err := exec.LookPath(row.tool); err != nil {
				skip(t, row.tool+" is not in the PATH (script/setup interop)")
			}
			if row.language == "python" && exec.CommandContext(t.Context(), "python3", "-c", "import cryptography").Run() != nil {
				skip(t, "the Python package cryptography is not installed (script/setup interop)")
			}
			pg.pick("#receiver-" + row.language)
			pg.fill("#receiver-port", fmt.Sprint(freePort(t)))
			pg.waitText("#receiver-program", row.text)
			command := pg.clickCopies("#receiver-copy-command")
			program := pg.clickCopies("#receiver-copy-program")
			if !strings.Contains(program, p.URL) || !strings.Contains(program, p.CAFile) || strings.Contains(program, "__") && row.language == "node" {
				t.Errorf("the program does not contain the URL and the CA file of this server:\n%s", program)
			}
			output := runReceiver(t, command, row.language == "go")

			pg.clickSends("#receiver-create", "POST", "checks")
			pg.clickSends("#receiver-open", "POST", "open")
			pg.waitFor(`document.querySelector("#receiver-result").dataset.result === "good"`)
			if line := output(); !strings.HasPrefix(line, "verified: phone_check COMPLETED") {
				t.Errorf("the receiver prints %q, want a verified callback", line)
			}
			pg.clickSends("#receiver-forge", "POST", "open")
			pg.waitText("#receiver-result", "400")
			if line := output(); !strings.HasPrefix(line, "rejected: ") {
				t.Errorf("the receiver prints %q, want that it rejects the forged callback", line)
			}
			pg.screenshot("receiver-" + row.language)
		})
	}
	pg.click("#receiver-show")
	pg.waitTimeline("attempt")
}

// freePort returns a port on which nothing listens.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// runReceiver runs a copied command until the test ends, waits until it listens, and returns a
// function that returns its next line.
func runReceiver(t *testing.T, command string, inModule bool) (line func() string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = t.TempDir()
	if inModule {
		writeModule(t, cmd.Dir)
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	}
	// The program is a child of the shell, or of go run.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Cancel()
		cmd.Wait()
	})
	lines := bufio.NewScanner(stdout)
	line = func() string {
		if !lines.Scan() {
			t.Errorf("the receiver ended: %v", lines.Err())
		}
		return lines.Text()
	}
	if got := line(); !strings.HasPrefix(got, "listening on ") {
		t.Fatalf("the receiver prints %q, want that it listens", got)
	}
	return line
}

// writeModule writes the files of a module that uses this repository.
func writeModule(t *testing.T, dir string) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(content), "module github.com/idverify/idverify-go/cmd/sandboxfake/browsertest", "module shop.example.com", 1)
		text = strings.Replace(text, "=> ../../..", "=> "+root, 1)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
