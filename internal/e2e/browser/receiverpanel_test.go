package browser

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/idverify/idverify-go/internal/tooltest"
)

// A new user copies the command of a receiver into a terminal, and gets a verified callback.
func TestReceiverPanel(t *testing.T) {
	skipSlow(t)
	t.Parallel()
	p, pg := startOpen(t)
	pg.allowClipboard()
	pg.view("receiver")
	pg.click("#receiver-show-program")
	pg.waitText("#receiver-saves", "sandbox-receiver/receiver.mjs")

	for _, row := range []struct{ language, tool, text string }{
		{"node", "node", "node:http"},
		{"python", "python3", "http.server"},
		{"go", "go", "package main"},
	} {
		t.Run(row.language, func(t *testing.T) {
			installed := tooltest.Installed(row.tool) && (row.language != "python" || exec.CommandContext(t.Context(), "python3", "-c", "import cryptography").Run() == nil)
			tooltest.Require(t, installed, "run script/setup interop, which installs Node.js, Python and cryptography")
			pg.pick("#receiver-" + row.language)
			pg.fill("#receiver-port", freePort(t))
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
			line := output()
			if !strings.HasPrefix(line, "verified: phone_check COMPLETED") {
				t.Errorf("the receiver prints %q, want a verified callback", line)
			}
			pg.waitText("#receiver-result", "Its output should say: "+line)
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
func freePort(t *testing.T) string {
	t.Helper()
	_, port, _ := strings.Cut(tooltest.ReservedAddress(t), ":")
	return port
}

// runReceiver runs a copied command until the test ends, waits until it listens, and returns a
// function that returns its next line.
func runReceiver(t *testing.T, command string, inModule bool) (line func() string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = t.TempDir()
	own := []string{"receiver.mjs", "receiver.py"} // files of the user
	for _, name := range own {
		noError(t, os.WriteFile(filepath.Join(cmd.Dir, name), []byte("mine"), 0o600))
	}
	if inModule {
		writeModule(t, cmd.Dir)
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	}
	// The program is a child of the shell, or of go run.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Stderr = os.Stderr
	lines := bufio.NewScanner(tooltest.Start(t, cmd))
	line = func() string {
		if !lines.Scan() {
			t.Errorf("the receiver ended: %v", lines.Err())
		}
		return lines.Text()
	}
	if got := line(); !strings.HasPrefix(got, "listening on ") {
		t.Fatalf("the receiver prints %q, want that it listens", got)
	}
	for _, name := range own {
		if content, err := os.ReadFile(filepath.Join(cmd.Dir, name)); string(content) != "mine" {
			t.Errorf("the command overwrites %s: %v", name, err)
		}
	}
	return line
}

// writeModule writes the files of a module that uses this repository, and the same other modules.
func writeModule(t *testing.T, dir string) {
	t.Helper()
	root := must(filepath.Abs("../../.."))(t)
	for _, name := range []string{"go.mod", "go.sum"} {
		content := must(os.ReadFile(filepath.Join(root, name)))(t)
		text := strings.Replace(string(content), "module github.com/idverify/idverify-go\n", "module shop.example.com\n\nrequire github.com/idverify/idverify-go v0.0.0\n\nreplace github.com/idverify/idverify-go => "+root+"\n", 1)
		noError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
}

// A forged callback does not affect the callbacks of other checks.
func TestReceiverPanel_ForgesOneCallback(t *testing.T) {
	t.Parallel()
	p, pg := startOpen(t)
	pg.view("receiver")
	pg.fill("#receiver-port", freePort(t))
	control[any](p, http.MethodPost, "faults", json.RawMessage(`{"match":{"operation":"phone_check.create"},"faults":[{"status":500}]}`))

	pg.clickSends("#receiver-forge", "POST", "checks")
	pg.waitText("#error-text", "500")
	for _, f := range control[struct{ Injections []injection }](p, http.MethodGet, "faults", nil).Injections {
		if f.Left > 0 {
			t.Errorf("fault %+v is active after the check could not be created, want none", f)
		}
	}
	pg.clickSends("#receiver-forge", "POST", "open")

	pg.waitText("#receiver-result", "Nothing listens")
	forged := p.newest()
	pg.view("checks")
	pg.selectCheck(forged.CheckID)
	pg.waitText(`#timeline > li[data-kind="attempt"]`, "injected: wrong key")
	pg.waitText("#fact-delivery", "The attempt had an injected fault: wrong key.")
	for _, e := range p.timeline(forged.CheckID) {
		if e.Kind == "attempt" && string(e.Fault) != `{"wrong_key":true}` {
			t.Errorf("attempt with the fault %s, want the wrong key", e.Fault)
		}
	}
}

// injection is an injection of faults, of which some may be left.
type injection struct {
	Match map[string]any
	Left  int
}

// The panel says what caused a result: the receiver, an injected fault, or the time.
func TestReceiverPanel_Result(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, fault, action, kind, want string }{
		{"nothing listens", "", "#receiver-open", "bad", "Nothing listens at http://localhost:"},
		{"drop", `{"drop":true}`, "#receiver-open", "none", "The fault that you set under Clock and faults caused this: drop. The service does not retry without a response."},
		{"status", `{"status":204}`, "#receiver-open", "none", "The fault that you set under Clock and faults caused this: status 204."},
		{"expired", "", "#expire-now", "bad", "The check expired before it was opened. Create another one."},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p, pg := startOpen(t)
			pg.view("receiver")
			pg.fill("#receiver-port", freePort(t))
			pg.clickSends("#receiver-create", "POST", "checks")
			if row.fault != "" {
				control[any](p, http.MethodPost, "faults", json.RawMessage(`{"match":{"operation":"callback"},"faults":[`+row.fault+`]}`))
			}
			if row.action == "#expire-now" {
				pg.view("checks")
			}

			pg.pick(row.action)
			if row.action == "#expire-now" {
				pg.waitText("#detail-status", "EXPIRED")
				pg.waitFor(`document.querySelector("#open-phone").title.startsWith("The check expired")`)
				pg.view("receiver")
				pg.waitFor(`document.querySelector("#receiver-open").title.startsWith("The check expired")`)
			}

			pg.waitText("#receiver-result", row.want)
			pg.waitFor(fmt.Sprintf(`document.querySelector("#receiver-result").dataset.result === %q`, row.kind))
		})
	}
}
