package main

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestProgram_SandboxEnvironment runs the commands that the program sandboxfake prints.
func TestProgram_SandboxEnvironment(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "sandboxfake")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/idverify/idverify-go/cmd/sandboxfake").CombinedOutput(); err != nil {
		t.Fatalf("build sandboxfake: %v\n%s", err, output)
	}
	server := exec.CommandContext(t.Context(), binary, "-quiet", "-ca-file", "it's the CA.pem")
	server.Dir = t.TempDir()
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	var export, command string
	for lines := bufio.NewScanner(stdout); command == "" && lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "export "):
			export = line
		case strings.HasPrefix(line, "go run ./cmd/idverify "):
			command = strings.TrimPrefix(line, "go run ./cmd/idverify ")
		}
	}
	printed, err := exec.CommandContext(t.Context(), "sh", "-c", export+"; env").Output()
	if err != nil {
		t.Fatalf("%v: %q", err, export)
	}
	env := make(map[string]string)
	for line := range strings.Lines(string(printed)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), "="); strings.HasPrefix(name, "IDVERIFY_") {
			env[name] = value
		}
	}

	got := runProgram(t, env, "", strings.Fields(command)...)

	got.expect(t, exitOK, []string{"ACCEPTED", "Check URL"}, []string{"The check was not charged"})
}

func TestProgram_ReadmeCommand(t *testing.T) {
	t.Parallel()
	m := regexp.MustCompile("`go run \\./cmd/idverify (check [^`]*)`").FindStringSubmatch(readText(t, "../../README.md"))
	if m == nil {
		t.Fatal("README.md has no command of the program idverify")
	}

	got := runProgram(t, nil, "", strings.Fields(m[1])...)

	got.expect(t, exitOK, []string{"Result  match"}, nil)
}
