package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	_ "go.opentelemetry.io/otel"
	_ "go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	_ "go.opentelemetry.io/otel/sdk/metric"

	"github.com/idverify/idverify-go/internal/tooltest"
	_ "github.com/idverify/idverify-go/otelidverify"
	"github.com/idverify/idverify-go/sandboxfake"
)

// The steps of docs/tutorial.md.
var (
	saveAs  = regexp.MustCompile("Save as `([^`]+)`")
	insert  = regexp.MustCompile("^In `([^`]+)`, insert before `([^`]+)`:$")
	replace = regexp.MustCompile("^In `([^`]+)`, replace `([^`]+)` by `([^`]+)`\\.$")
)

// requirement matches a direct requirement of this module.
var requirement = regexp.MustCompile(`(?m)^\t(\S+) (v\S+)$`)

// TestTutorial runs the steps of docs/tutorial.md in an empty folder. The versions of the modules
// are those of this module.
func TestTutorial(t *testing.T) {
	t.Parallel()
	if os.Getenv("IDVERIFY_SLOW") == "" {
		t.Skip("slow: set IDVERIFY_SLOW=1")
	}
	text := must(os.ReadFile("../../docs/tutorial.md"))(t)
	r := newReader(t)

	var block []string // the lines of a code block
	language, file, before := "", "", ""
	for line := range strings.SplitSeq(string(text), "\n") {
		switch {
		case language == "" && strings.HasPrefix(line, "```"):
			language, block = strings.TrimPrefix(line, "```"), nil
		case line == "```":
			switch language {
			case "go":
				r.write(file, before, strings.Join(block, "\n")+"\n")
				file, before = "", ""
			case "sh":
				for _, command := range block {
					r.run(command)
				}
			}
			language = ""
		case language != "":
			block = append(block, line)
		default:
			if m := saveAs.FindStringSubmatch(line); m != nil {
				file = m[1]
			}
			if m := insert.FindStringSubmatch(line); m != nil {
				file, before = m[1], m[2]
			}
			if m := replace.FindStringSubmatch(line); m != nil {
				r.replace(m[1], m[2], m[3])
			}
		}
	}

	r.start()
	r.signIn()
	output := r.stop()
	for _, metric := range []string{"idverify.client.attempt.duration", "idverify.verification.duration", "idverify.jwks.age"} {
		if !strings.Contains(output, `"`+metric+`"`) {
			t.Errorf("the program does not print the metric %s:\n%s", metric, output)
		}
	}
	if r.steps < 8 {
		t.Errorf("ran %d commands of the page, want at least 8", r.steps)
	}
}

// reader follows the tutorial.
type reader struct {
	t       *testing.T
	dir     string
	service *sandboxfake.Server
	addr    string // of the program
	env     []string
	shop    *exec.Cmd // nil unless it runs
	output  *bytes.Buffer
	steps   int // commands that were run
}

func newReader(t *testing.T) *reader {
	t.Helper()
	r := &reader{t: t, dir: t.TempDir(), service: sandboxfake.New(t, sandboxfake.WithLiveProject()), addr: strings.Replace(tooltest.ReservedAddress(t), "127.0.0.1", "localhost", 1)}
	ca := filepath.Join(r.dir, "ca.pem")
	noError(t, os.WriteFile(ca, r.service.CACertPEM(), 0o600))
	credentials := r.service.Credentials()
	r.env = append(os.Environ(), "GOWORK=off", "ADDR="+r.addr, "SSL_CERT_FILE="+ca, "IDVERIFY_BASE_URL="+r.service.URL(),
		"IDVERIFY_CLIENT_ID="+credentials.ClientID, "IDVERIFY_CLIENT_SECRET="+credentials.ClientSecret.Reveal())
	t.Cleanup(func() {
		if r.shop != nil {
			_ = r.shop.Process.Kill()
			_ = r.shop.Wait()
		}
	})
	return r
}

// write saves a file, or inserts code before a text in it.
func (r *reader) write(file, before, code string) {
	r.t.Helper()
	if file == "" {
		r.t.Fatalf("the page does not say where to save this code:\n%s", code)
	}
	if before != "" {
		r.replace(file, before, strings.TrimLeft(code, "\t")+"\t"+before)
		return
	}
	noError(r.t, os.WriteFile(filepath.Join(r.dir, file), []byte(code), 0o600))
}

func (r *reader) replace(file, from, to string) {
	r.t.Helper()
	path := filepath.Join(r.dir, file)
	text := must(os.ReadFile(path))(r.t)
	if n := strings.Count(string(text), from); n != 1 {
		r.t.Fatalf("%s contains %q %d times, want once", file, from, n)
	}
	noError(r.t, os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o600))
}

// run runs a command of the page.
func (r *reader) run(command string) {
	r.t.Helper()
	r.steps++
	switch name, _, _ := strings.Cut(command, " "); {
	case command == "sandboxfake -live", name == "export", strings.HasPrefix(command, "go install "), strings.HasPrefix(command, "mkdir "):
		// newReader starts the fake, in a new folder.
	case command == "go mod init shop":
		r.initModule()
	case strings.HasPrefix(command, "go get "):
		r.require(strings.Fields(command)[2:])
	case command == "go mod tidy":
		r.tidy()
	case strings.HasPrefix(command, "SSL_CERT_FILE=$IDVERIFY_CA_FILE ./shop "):
		r.start()
		r.signIn()
		r.stop()
	case name == "curl":
		r.start()
		if got := r.shell(strings.ReplaceAll(command, "localhost:8080", r.addr)); got != "204\n" {
			r.t.Errorf("%s: output %q, want 204", command, got)
		}
		r.stop()
	default:
		r.shell(command)
	}
}

func (r *reader) shell(command string) (stdout string) {
	r.t.Helper()
	c := exec.CommandContext(r.t.Context(), "bash", "-c", command)
	c.Dir, c.Env = r.dir, r.env
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s%s", command, err, out, &stderr)
	}
	return string(out)
}

// initModule creates the module with the indirect requirements of this one, which go get would add.
func (r *reader) initModule() {
	r.t.Helper()
	for _, name := range []string{"go.mod", "go.sum"} {
		text := must(os.ReadFile(name))(r.t)
		if name == "go.mod" {
			root := must(filepath.Abs("../.."))(r.t)
			text = regexp.MustCompile(`(?m)^module .*$`).ReplaceAll(text, []byte("module shop"))
			text = bytes.ReplaceAll(text, []byte("=> ../.."), []byte("=> "+root))
			text = requirement.ReplaceAll(text, nil)
		}
		r.write(name, "", string(text))
	}
}

// require adds modules to go.mod as go get does, in the versions of this module.
func (r *reader) require(modules []string) {
	r.t.Helper()
	versions := make(map[string]string)
	for _, m := range requirement.FindAllStringSubmatch(string(must(os.ReadFile("go.mod"))(r.t)), -1) {
		versions[m[1]] = m[2]
	}
	for _, m := range modules {
		if versions[m] == "" {
			r.t.Errorf("go.mod does not require %s, which the page gets", m)
			continue
		}
		r.shell("go mod edit -require=" + m + "@" + versions[m])
	}
}

// tidy removes the requirements that no file imports from go.mod, as go mod tidy does, which needs
// the network.
func (r *reader) tidy() {
	r.t.Helper()
	var code strings.Builder
	for _, name := range must(filepath.Glob(filepath.Join(r.dir, "*.go")))(r.t) {
		code.Write(must(os.ReadFile(name))(r.t))
	}
	text := must(os.ReadFile(filepath.Join(r.dir, "go.mod")))(r.t)
	for _, m := range requirement.FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(code.String(), `"`+m[1]+`"`) && !strings.Contains(code.String(), `"`+m[1]+"/") {
			r.shell("go mod edit -droprequire=" + m[1])
		}
	}
}

// start starts the program and waits until it serves.
func (r *reader) start() {
	r.t.Helper()
	r.output = new(bytes.Buffer)
	r.shop = exec.CommandContext(r.t.Context(), filepath.Join(r.dir, "shop"))
	r.shop.Dir, r.shop.Env, r.shop.Stdout, r.shop.Stderr = r.dir, r.env, r.output, r.output
	noError(r.t, r.shop.Start())
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	for {
		var dialer net.Dialer
		c, err := dialer.DialContext(ctx, "tcp", r.addr)
		if err == nil {
			c.Close()
			return
		}
		if ctx.Err() != nil {
			r.t.Fatalf("the program does not serve: %v\n%s", err, r.output)
		}
	}
}

// stop ends the program as Ctrl-C does, and returns its output.
func (r *reader) stop() string {
	r.t.Helper()
	noError(r.t, r.shop.Process.Signal(os.Interrupt))
	if err := r.shop.Wait(); err != nil {
		r.t.Errorf("the program ends with %v:\n%s", err, r.output)
	}
	r.shop = nil
	return r.output.String()
}

// signIn signs in with the browser of a phone, and fails to do so with a number of another one.
func (r *reader) signIn() {
	r.t.Helper()
	for number, want := range map[string]string{"+44 7700 900 012": "Signed in: 447700900012\n", "+44 7700 900 013": "<!doctype html>"} {
		browser := r.service.Device().Client()
		response := must(browser.PostForm("http://"+r.addr+"/start", url.Values{"number": {number}}))(r.t)
		page, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || !strings.HasPrefix(string(page), want) {
			r.t.Errorf("sign-in with %s: response %d %q, error %v, want %q\n%s", number, response.StatusCode, page, err, want, r.output)
		}
	}
}
