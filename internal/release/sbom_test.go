package main

import (
	"bytes"
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// newBinary returns a binary of version v1.2.3 with one linked module.
func newBinary(module string) *binary {
	return &binary{
		goos: "linux", goarch: "arm64", committed: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		info: &debug.BuildInfo{
			GoVersion: "go1.26.8",
			Main:      debug.Module{Path: "github.com/idverify/idverify-go", Version: "v1.2.3+dirty"},
			Deps:      []*debug.Module{{Path: module, Version: "v0.37.0", Sum: "h1:sum"}},
			Settings:  []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "arm64"}, {Key: "CGO_ENABLED", Value: "0"}},
		},
	}
}

func TestBOM_Components(t *testing.T) {
	// The list of licenses is in the root of the module.
	t.Chdir("../..")
	text, err := newBOM(newBinary("golang.org/x/oauth2"), []byte("program"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := newBOM(newBinary("golang.org/x/oauth2"), []byte("program"))
	if err != nil {
		t.Fatal(err)
	}

	var got bom
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}

	var components []string
	for _, c := range append(got.Components, got.Metadata.Component) {
		components = append(components, c.PURL+" "+c.Licenses[0].License.ID)
	}
	want := "pkg:golang/golang.org/x/oauth2@v0.37.0 BSD-3-Clause\n" +
		"pkg:golang/std@1.26.8 BSD-3-Clause\n" +
		"pkg:golang/github.com/idverify/idverify-go@v1.2.3%2Bdirty#cmd/sandboxfake Apache-2.0"
	if joined := strings.Join(components, "\n"); joined != want {
		t.Errorf("components:\n%s\nwant:\n%s", joined, want)
	}
	if got.Metadata.Timestamp != "2026-01-02T03:04:05Z" || !bytes.Equal(text, again) {
		t.Errorf("timestamp = %s, equal = %v, want that of the commit and the same text each time", got.Metadata.Timestamp, bytes.Equal(text, again))
	}
	if len(got.Dependencies) != 1 || len(got.Dependencies[0].DependsOn) != 2 {
		t.Errorf("dependencies = %v, want both components", got.Dependencies)
	}
}

func TestBOM_UnknownLicense(t *testing.T) {
	t.Chdir("../..")

	_, err := newBOM(newBinary("example.com/unknown"), nil)

	if err == nil || !strings.Contains(err.Error(), "example.com/unknown") {
		t.Errorf("error = %v, want one that names the module", err)
	}
}
