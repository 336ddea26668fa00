package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// pageCommand matches a command of the program in a page: a line of a block, or a code span.
var pageCommand = regexp.MustCompile("(?m)(?:^|`|&& )(sandboxfake(?: [^\n`#]*)?)(?:`| *#|$)")

// TestPages_Commands runs each command of the program in the pages, in bash. The ports, and the
// names that a reader has to replace, are those of this test.
func TestPages_Commands(t *testing.T) {
	t.Parallel()
	tooltest.Require(t, tooltest.Installed("bash", "mkfifo"), "install bash and coreutils")
	commands := make(map[string]bool)
	for _, page := range pages(t) {
		for _, m := range pageCommand.FindAllStringSubmatch(readFile(t, page), -1) {
			commands[strings.TrimSpace(m[1])] = true
		}
	}

	for command := range commands {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			p, dir := startPageCommand(t, command)

			switch {
			case regexp.MustCompile(`-(openapi|version|h)\b`).MatchString(command):
				if err := p.cmd.Wait(); err != nil {
					t.Errorf("the command fails: %v\n%s", err, p.log.String())
				}
				if strings.HasSuffix(command, "> service.json") && readFile(t, filepath.Join(dir, "service.json")) != string(sandboxfake.OpenAPI()) {
					t.Error("service.json is not the description of the service")
				}
				return
			case strings.HasSuffix(command, "> sandbox.json &"):
				file := must(os.Open(filepath.Join(dir, "sandbox.json")))(t)
				defer file.Close()
				p.stdout = bufio.NewReader(file)
				p.readJSON()
			default:
				p.readUntil("Ctrl-C")
			}
			if code, _ := p.stop(os.Interrupt); code != 0 {
				t.Errorf("exit code = %d, want 0\n%s", code, p.log.String())
			}
		})
	}
	if len(commands) < 8 {
		t.Errorf("found the commands %v, want at least 8", commands)
	}
}

// startPageCommand starts a command in a directory that contains proxy-ca.pem, and the pipe
// sandbox.json, so that a test can wait for its first line.
func startPageCommand(t *testing.T, command string) (p *program, dir string) {
	t.Helper()
	dir = t.TempDir()
	ca := newPair(t, time.Now().Add(time.Hour), "proxy.example.com")
	noError(t, os.WriteFile(filepath.Join(dir, "proxy-ca.pem"), []byte(readFile(t, ca.certificate)), 0o600))
	if output, err := exec.CommandContext(t.Context(), "mkfifo", filepath.Join(dir, "sandbox.json")).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v\n%s", err, output)
	}
	script := strings.NewReplacer("127.0.0.1:8443", "127.0.0.1:0", "<the host of your tunnel>", "tunnel.example.com", " &", "").Replace(command)
	shell := exec.CommandContext(t.Context(), "bash", "-c", "exec "+script)
	shell.Dir = dir
	shell.Env = append(os.Environ(), asProgram, "PATH="+buildDir+":"+os.Getenv("PATH"), "TMPDIR="+dir)
	if strings.Contains(command, "-lan") { // also on a machine that has no network
		shell.Env = append(shell.Env, "SANDBOXFAKE_ADDR=:0", "SANDBOXFAKE_PUBLIC_URL=https://sandbox.example.com:0")
	}
	return startCommand(t, shell), dir
}

// pages returns the paths of the pages for users.
func pages(t *testing.T) []string {
	t.Helper()
	return append(must(filepath.Glob("../../docs/*.md"))(t), "../../README.md", "README.md")
}

// TestSandboxPage_ControlPlane runs the curl commands of docs/sandbox.md.
func TestSandboxPage_ControlPlane(t *testing.T) {
	t.Parallel()
	tooltest.Require(t, tooltest.Installed("bash", "curl"), "run script/setup interop, which installs curl")
	_, a := startJSON(t, "-fixed-keys")
	commands := regexp.MustCompile(`(?m)^curl .*$`).FindAllString(readFile(t, "../../docs/sandbox.md"), -1)

	for _, command := range commands {
		shell := exec.CommandContext(t.Context(), "bash", "-c", command+" -fsS")
		shell.Env = append(os.Environ(), "URL="+a.URL, "CA="+a.CAFile, "CONTROL="+a.Token)
		output, err := shell.CombinedOutput()
		if err != nil || !json.Valid(output) {
			t.Errorf("%s: %v\n%s", command, err, output)
		}
	}
	if len(commands) < 3 {
		t.Errorf("found %d commands, want at least 3", len(commands))
	}
}

// interopModules is where 'npm ci' installs http-signature. The tests of package signature use it
// too.
const interopModules = "../../signature/testdata/interop/node_modules"

func TestWalkthrough(t *testing.T) {
	t.Parallel()
	modules := must(filepath.Abs(interopModules))(t)
	_, missing := os.Stat(filepath.Join(modules, "http-signature"))
	python := tooltest.Python(t, "cryptography, requests")
	for _, row := range []struct {
		file, interpreter string
		installed         bool
		setup             string // of the tools
		env               func(announced) []string
		end               string // of the output
	}{
		{"walkthrough.sh", "sh", tooltest.Installed("sh", "curl", "sed", "openssl"), "run script/setup interop, which installs curl and openssl", func(a announced) []string {
			return []string{"URL=" + a.URL, "CA=" + a.CAFile, "ID=" + a.Project.ClientID, "SECRET=" + a.Project.ClientSecret, "CONTROL=" + a.Token}
		}, "all as expected\n"},
		{"walkthrough.js", "node", tooltest.Installed("node") && missing == nil, "run script/setup interop, which installs Node.js, and 'npm ci' in signature/testdata/interop", func(a announced) []string {
			return []string{"NODE_EXTRA_CA_CERTS=" + a.CAFile, "NODE_PATH=" + modules}
		}, "the forged callback is rejected\n"},
		{"walkthrough.py", python, python != "", "run script/setup interop, which installs Python with cryptography and requests", func(a announced) []string {
			return []string{"REQUESTS_CA_BUNDLE=" + a.CAFile}
		}, "the forged callback is rejected\n"},
	} {
		t.Run(row.file, func(t *testing.T) {
			t.Parallel()
			tooltest.Require(t, row.installed, row.setup)
			p, a := startJSON(t)
			line := must(json.Marshal(a))(t)
			script := exec.CommandContext(t.Context(), row.interpreter, "testdata/walkthrough/"+row.file)
			script.Stdin = strings.NewReader(string(line))
			script.Env = append(os.Environ(), row.env(a)...)

			output, err := script.CombinedOutput()

			t.Logf("\n%s", output)
			if err != nil || !strings.HasSuffix(string(output), row.end) {
				t.Errorf("the walkthrough fails: %v\nlog of sandboxfake:\n%s", err, p.log.String())
			}
		})
	}
}
