package openapi

import (
	"encoding/json"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	verrors "github.com/pb33f/libopenapi-validator/errors"

	"github.com/idverify/idverify-go/internal/tooltest"
)

const documentFile = "../../../cmd/sandboxfake/openapi.json"

// operation is the part of an operation that the tests use.
type operation struct {
	Method, Path string // as in getHelp, such as GET and /_sandbox/time

	OperationID string                     `json:"operationId"`
	Security    *[]any                     `json:"security"`
	RequestBody json.RawMessage            `json:"requestBody"`
	Responses   map[string]json.RawMessage `json:"responses"`
}

// open reports whether the operation requires no token.
func (o operation) open() bool { return o.Security != nil && len(*o.Security) == 0 }

// operations returns the operations of the document, by their method and path.
func operations(t *testing.T) map[string]operation {
	t.Helper()
	var document struct {
		Paths map[string]map[string]operation `json:"paths"`
	}
	noError(t, json.Unmarshal(controlDocument(t), &document))
	all := make(map[string]operation)
	for path, item := range document.Paths {
		for method, o := range item {
			o.Method, o.Path = strings.ToUpper(method), path
			all[o.Method+" "+path] = o
		}
	}
	return all
}

// controlDocument returns the description of the control plane.
func controlDocument(t *testing.T) []byte { t.Helper(); return must(os.ReadFile(documentFile))(t) }

// newValidator returns a validator for a description.
func newValidator(t *testing.T, text []byte, options ...config.Option) validator.Validator {
	t.Helper()
	document := must(libopenapi.NewDocument(text))(t)
	v, errs := validator.NewValidator(document, append(options, config.WithFormatAssertions())...)
	for _, err := range errs {
		t.Fatal(err)
	}
	return v
}

// describe returns the text of validation errors.
func describe(errs []*verrors.ValidationError) string {
	var b strings.Builder
	for _, err := range errs {
		b.WriteString(err.Message + ": " + err.Reason + "\n")
		for _, failure := range err.SchemaValidationErrors {
			b.WriteString("  " + failure.FieldPath + ": " + failure.Reason + "\n")
		}
	}
	return b.String()
}

func TestDocument_Valid(t *testing.T) {
	t.Parallel()
	for name, document := range map[string]func(*testing.T) []byte{"control": controlDocument, "service": serviceDocument} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			valid, errs := newValidator(t, document(t)).ValidateDocument()

			if !valid {
				t.Errorf("the document is not valid OpenAPI 3.1:\n%s", describe(errs))
			}
		})
	}
}

func TestDocument_ListsAllOperations(t *testing.T) {
	t.Parallel()
	p := start(t)
	response := must(p.client.Get(p.URL + "/_sandbox/"))(t)
	defer response.Body.Close()
	text := must(io.ReadAll(response.Body))(t)
	want := []string{"GET /_sandbox/"}
	for _, line := range regexp.MustCompile(`(?m)^([A-Z]+) +(/_sandbox/\S+)$`).FindAllStringSubmatch(string(text), -1) {
		want = append(want, line[1]+" "+line[2])
	}

	described := operations(t)

	for _, name := range want {
		if _, found := described[name]; !found {
			t.Errorf("the document does not describe %s", name)
		}
	}
	for name := range described {
		if !slices.Contains(want, name) {
			t.Errorf("the document describes %s, which the program does not list", name)
		}
	}
}

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }
