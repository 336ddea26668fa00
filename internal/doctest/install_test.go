package doctest_test

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/internal/tooltest"
)

const (
	modulePath = "github.com/idverify/idverify-go"
	released   = "v1.2.3" // the version of this tree for the proxy of newProxy
)

// TestPages_Install runs the commands of the pages that install the programs, get modules, or
// create the module of README.md, as after a release.
func TestPages_Install(t *testing.T) {
	t.Parallel()
	if os.Getenv("IDVERIFY_SLOW") == "" {
		t.Skip("slow: set IDVERIFY_SLOW=1")
	}
	tooltest.Require(t, tooltest.Installed("git"), "install git")
	bin := t.TempDir()
	env := []string{"GOBIN=" + bin, "GOMODCACHE=" + t.TempDir(), "GOPROXY=" + newProxy(t), "GOSUMDB=off", "GOWORK=off", "GOFLAGS=-trimpath -modcacherw"}
	program := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(readPage(t, "../README.md"))[1]
	ran := 0

	for _, page := range allPages(t) {
		for _, command := range pageCommands(t, page) {
			command, _, _ = strings.Cut(command, " && sandboxfake")
			dir := t.TempDir()
			switch {
			case strings.HasPrefix(command, "go install "):
			case strings.HasPrefix(command, "go mod init ") && strings.HasSuffix(command, "&& go run ."):
				command = strings.Replace(command, "go run .", "go build", 1) // examples/signin runs the program
				noError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600))
			case strings.HasPrefix(command, "go get "):
				command = "go mod init shop && " + command
			case strings.HasPrefix(command, "go list -m "+modulePath):
				command = "go mod init shop && go get " + modulePath + " && " + command
			default:
				continue
			}
			ran++
			if output, err := runIn(t, dir, env, "bash", "-c", command); err != nil {
				t.Errorf("%s: %s: %v\n%s", page, command, err, output)
			}
		}
	}

	for _, args := range [][]string{{"idverify", "version"}, {"sandboxfake", "-version"}} {
		output, err := runIn(t, bin, env, filepath.Join(bin, args[0]), args[1:]...)
		if err != nil || !strings.Contains(output, strings.TrimPrefix(released, "v")) {
			t.Errorf("%v prints %q, %v, want the version %s", args, output, err, released)
		}
	}
	if ran < 9 {
		t.Errorf("ran %d commands, want at least 9", ran)
	}
}

// newProxy returns the GOPROXY with this module and its nested modules for users, as a release tags
// them. Other modules come from the cache of the go command; those that the tutorial gets have only
// the version of examples/callbacks, whose test compiles the tutorial.
func newProxy(t *testing.T) string {
	t.Helper()
	proxy := t.TempDir()
	listed, err := runIn(t, root, nil, "git", "ls-files", "-co", "--exclude-standard")
	if err != nil {
		t.Fatalf("git ls-files: %v\n%s", err, listed)
	}
	files := make(map[string][]string) // by the directory of their module
	names := strings.Fields(listed)
	for _, name := range names {
		dir := path.Dir(name)
		for dir != "." && !slices.Contains(names, dir+"/go.mod") {
			dir = path.Dir(dir)
		}
		files[dir] = append(files[dir], name)
	}
	cache := strings.TrimSpace(must(runIn(t, root, nil, "go", "env", "GOMODCACHE"))(t)) + "/cache/download"
	for _, dir := range []string{".", "inbox", "otelidverify", "redisstore"} {
		download(t, dir)
		writeVersion(t, filepath.Join(proxy, modulePath, dir, "@v"), dir, files[dir])
	}
	linkModules(t, proxy, cache)
	return "file://" + proxy + ",file://" + cache
}

// linkModules adds the modules of other projects that the tutorial gets to a proxy, from the cache
// of the go command.
func linkModules(t *testing.T, proxy, cache string) {
	t.Helper()
	const dir = "examples/callbacks"
	download(t, dir)
	mod := must(os.ReadFile(filepath.Join(root, dir, "go.mod")))(t)
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) (v\S+)$`).FindAllStringSubmatch(string(mod), -1) {
		if strings.HasPrefix(m[1], modulePath) {
			continue
		}
		versions := filepath.Join(m[1], "@v")
		writeFiles(t, filepath.Join(proxy, versions), map[string][]byte{"list": []byte(m[2] + "\n")})
		for _, extension := range []string{".info", ".mod", ".zip"} {
			name := filepath.Join(versions, m[2]+extension)
			noError(t, os.Symlink(filepath.Join(cache, name), filepath.Join(proxy, name)))
		}
	}
}

// download adds what the module in dir requires to the cache of the go command.
func download(t *testing.T, dir string) {
	t.Helper()
	// "go get" needs the .info files, which only "go mod download" adds. "go mod tidy" needs the
	// modules that tests of dependencies import, which only "go mod tidy" adds.
	for _, args := range [][]string{{"mod", "download"}, {"mod", "tidy", "-diff"}} {
		if output, err := runIn(t, filepath.Join(root, dir), []string{"GOWORK=off"}, "go", args...); err != nil {
			t.Fatalf("go %v in %s: %v\n%s", args, dir, err, output)
		}
	}
}

// writeVersion writes the files of a proxy for the module in dir, which consists of files.
func writeVersion(t *testing.T, versions, dir string, files []string) {
	t.Helper()
	mod := must(os.ReadFile(filepath.Join(root, dir, "go.mod")))(t)
	if dir != "." { // CONTRIBUTING.md, "Release"
		mod = regexp.MustCompile(`(?m)^replace .*\n`).ReplaceAll(mod, nil)
		mod = bytes.ReplaceAll(mod, []byte(" v0.0.0\n"), []byte(" "+released+"\n"))
	}
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, name := range files {
		text := mod
		if name != path.Join(dir, "go.mod") {
			text = must(os.ReadFile(filepath.Join(root, name)))(t)
		}
		f := must(w.Create(path.Join(modulePath, dir) + "@" + released + "/" + strings.TrimPrefix(name, dir+"/")))(t)
		must(f.Write(text))(t)
	}
	noError(t, w.Close())
	writeFiles(t, versions, map[string][]byte{
		"list":             []byte(released + "\n"),
		released + ".info": []byte(`{"Version": "` + released + `"}`),
		released + ".mod":  mod,
		released + ".zip":  archive.Bytes(),
	})
}

// writeFiles writes files in a directory, which it creates.
func writeFiles(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	noError(t, os.MkdirAll(dir, 0o700))
	for name, text := range files {
		noError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
}

// runIn runs a command in a directory, with env in addition to the environment, and returns its
// output: after an error, also that on stderr.
func runIn(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir, command.Env = dir, append(os.Environ(), env...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, err := command.Output()
	if err != nil {
		return string(stdout) + stderr.String(), err
	}
	return string(stdout), nil
}
