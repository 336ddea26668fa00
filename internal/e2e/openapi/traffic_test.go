package openapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
)

// serviceDocument returns the description of the service that the program prints.
func serviceDocument(t *testing.T) []byte {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), sandboxfake.Build(t), "-openapi").Output()
	if err != nil {
		t.Fatalf("sandboxfake -openapi: %v", err)
	}
	return text
}

// exchange is a request and its response, as testdata/record records them.
type exchange struct {
	Method, Target string
	Header         http.Header
	Body           []byte
	Status         int
	ResponseHeader http.Header `json:"response_header"`
	ResponseBody   []byte      `json:"response_body"`
}

// recorded is a command whose exchanges are recorded.
type recorded struct {
	name string
	args []string // of the command go
	min  int      // exchanges
}

// record runs the commands with a fake that records, and returns the exchanges of each.
func record(t *testing.T, commands []recorded) map[string][]exchange {
	t.Helper()
	root := must(filepath.Abs("../../.."))(t)
	dir := t.TempDir()
	const served = "func (s *Server) serve(w http.ResponseWriter"
	handler := filepath.Join(root, "sandboxfake", "handler.go")
	source := must(os.ReadFile(handler))(t)
	if !bytes.Contains(source, []byte(served)) {
		t.Fatalf("handler.go does not contain %q", served)
	}
	renamed := filepath.Join(dir, "handler.go")
	noError(t, os.WriteFile(renamed, bytes.Replace(source, []byte(served), []byte("func (s *Server) serveUnrecorded(w http.ResponseWriter"), 1), 0o600))
	recorder := must(filepath.Abs("testdata/record/record.go"))(t)
	overlay, _ := json.Marshal(map[string]any{"Replace": map[string]string{
		handler: renamed,
		filepath.Join(root, "sandboxfake", "record.go"): recorder,
	}})
	overlayFile := filepath.Join(dir, "overlay.json")
	noError(t, os.WriteFile(overlayFile, overlay, 0o600))
	all := make(map[string][]exchange)
	for _, row := range commands {
		file := filepath.Join(dir, row.name)
		command := exec.CommandContext(t.Context(), "go", row.args...)
		command.Dir = root
		command.Env = append(os.Environ(), "RECORD="+file, "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlayFile)
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(row.args, " "), err, output)
		}
		all[row.name] = readExchanges(t, file)
		if len(all[row.name]) < row.min {
			t.Errorf("%s: %d exchanges, want at least %d", row.name, len(all[row.name]), row.min)
		}
	}
	return all
}

func readExchanges(t *testing.T, path string) []exchange {
	t.Helper()
	file := must(os.Open(path))(t)
	defer file.Close()
	var all []exchange
	for lines := json.NewDecoder(bufio.NewReader(file)); ; {
		var e exchange
		if err := lines.Decode(&e); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
}

// withoutOtherMembers returns a description whose objects can have no other members than those that
// it describes.
func withoutOtherMembers(t *testing.T, document []byte) []byte {
	t.Helper()
	var root any
	noError(t, json.Unmarshal(document, &root))
	var visit func(any)
	visit = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			if value["properties"] != nil && value["type"] == "object" {
				value["additionalProperties"] = false
			}
			for _, inner := range value {
				visit(inner)
			}
		case []any:
			for _, inner := range value {
				visit(inner)
			}
		}
	}
	visit(root)
	closed, _ := json.Marshal(root)
	return closed
}

// violation returns why the description does not permit an exchange, or "". A request that the
// service accepts must be valid, and so must every response.
func violation(requests, responses validator.Validator, e exchange) string {
	request, err := http.NewRequest(e.Method, "https://sandbox.test"+e.Target, bytes.NewReader(e.Body))
	if err != nil {
		return err.Error()
	}
	request.Header = e.Header
	response := &http.Response{StatusCode: e.Status, Header: e.ResponseHeader, Body: io.NopCloser(bytes.NewReader(e.ResponseBody)), Request: request}
	if valid, errs := requests.ValidateHttpRequest(request); !valid && e.Status < 400 {
		return "the request is not described:\n" + describe(errs)
	}
	if valid, errs := responses.ValidateHttpResponse(request, response); !valid {
		return "the response is not described:\n" + describe(errs)
	}
	return ""
}

func TestService_DescribesTraffic(t *testing.T) {
	t.Parallel()
	document := serviceDocument(t)
	requests := newValidator(t, document, config.WithStandardBodyDecoders())
	responses := newValidator(t, withoutOtherMembers(t, document))
	exchanges := record(t, []recorded{
		{"conformance", []string{"test", "-count=1", "-run", "^TestRun_Fake(InMemory|OverLoopback)$", "./internal/conformance"}, 300},
		{"fuzz", []string{"test", "-count=1", "-run", "^Fuzz", "./sandboxfake"}, 200},
		{"quickstart", []string{"run", "./examples/quickstart"}, 20},
		{"reachability", []string{"run", "./examples/reachability"}, 5},
		{"simswap", []string{"run", "./examples/simswap"}, 4},
		{"console", []string{"run", "./examples/console"}, 10},
		{"callbacks", []string{"run", "-C", "examples/callbacks", "."}, 5},
		{"passwordless", []string{"test", "-count=1", "-run", "^TestRun_", "./examples/passwordless"}, 3},        // a server; the test is its browser
		{"signin", []string{"test", "-count=1", "-run", "^Test(SignIn|Site_Rejects)$", "./examples/signin"}, 10}, // likewise
	})

	for name, all := range exchanges {
		t.Logf("%s: %d exchanges", name, len(all))
		for _, e := range all {
			if reason := violation(requests, responses, e); reason != "" {
				t.Errorf("%s: %s %s %s = %d %s: %s", name, e.Method, e.Target, e.Body, e.Status, e.ResponseBody, reason)
			}
		}
	}
}
