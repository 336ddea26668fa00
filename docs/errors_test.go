package docs_test

import (
	"errors"
	"go/ast"
	"go/token"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/signature"
)

const errorsPage = "errors.md"

// sentinels are the exported errors of package idverify.
var sentinels = map[string]error{
	"ErrBadRequest":          idverify.ErrBadRequest,
	"ErrPhoneFormat":         idverify.ErrPhoneFormat,
	"ErrUnauthorized":        idverify.ErrUnauthorized,
	"ErrInsufficientBalance": idverify.ErrInsufficientBalance,
	"ErrForbidden":           idverify.ErrForbidden,
	"ErrNotFound":            idverify.ErrNotFound,
	"ErrConflict":            idverify.ErrConflict,
	"ErrNotMobileIP":         idverify.ErrNotMobileIP,
	"ErrNetworkNotSupported": idverify.ErrNetworkNotSupported,
	"ErrRateLimited":         idverify.ErrRateLimited,
	"ErrIPMismatch":          idverify.ErrIPMismatch,
	"ErrOutcomeUnknown":      idverify.ErrOutcomeUnknown,
}

// reasons are the exported errors of package signature.
var reasons = map[string]error{
	"signature.ErrMalformed":   signature.ErrMalformed,
	"signature.ErrAlgorithm":   signature.ErrAlgorithm,
	"signature.ErrCoverage":    signature.ErrCoverage,
	"signature.ErrSkew":        signature.ErrSkew,
	"signature.ErrHost":        signature.ErrHost,
	"signature.ErrUnknownKey":  signature.ErrUnknownKey,
	"signature.ErrSignature":   signature.ErrSignature,
	"signature.ErrDigest":      signature.ErrDigest,
	"signature.ErrReplay":      signature.ErrReplay,
	"signature.ErrTooLarge":    signature.ErrTooLarge,
	"signature.ErrKeySource":   signature.ErrKeySource,
	"signature.ErrReplayStore": signature.ErrReplayStore,
	"signature.ErrBody":        signature.ErrBody,
	"signature.ErrTooLate":     signature.ErrTooLate,
}

func TestErrors_Sentinels(t *testing.T) {
	t.Parallel()
	if got, want := sortedKeys(sentinels), exportedErrors(t, ".", ""); !slices.Equal(got, want) {
		t.Fatalf("this test knows the sentinels %q, want %q", got, want)
	}
	if got, want := sortedKeys(reasons), exportedErrors(t, "signature", "signature."); !slices.Equal(got, want) {
		t.Fatalf("this test knows the reasons %q, want %q", got, want)
	}

	got := make(map[string]bool)
	for _, tb := range readTables(t, errorsPage) {
		if tb.header[0] != "Error" {
			continue
		}
		for _, row := range tb.rows {
			name := codeSpans(row.cells[0])[0]
			got[name] = true
			if reason, ok := reasons[name]; ok {
				want := http.StatusBadRequest
				if (&signature.Error{Reason: reason}).Retryable() {
					want = http.StatusServiceUnavailable
				}
				if row.cells[1] != strconv.Itoa(want) {
					t.Errorf("%s: response = %s, want %d", at(errorsPage, row), row.cells[1], want)
				}
			}
		}
	}

	for _, name := range slices.Concat(sortedKeys(sentinels), sortedKeys(reasons), exportedErrors(t, "inbox", "inbox.")) {
		if !got[name] {
			t.Errorf("docs/%s does not describe %s", errorsPage, name)
		}
	}
}

func TestErrors_Fragments(t *testing.T) {
	t.Parallel()
	statuses := make(map[string]string)
	for _, row := range findTable(t, protocolPage, "Fragment").rows {
		statuses[codeSpans(row.cells[0])[0]] = row.cells[1]
	}

	var got []string
	for _, row := range findTable(t, errorsPage, "Fragment").rows {
		fragment, name := codeSpans(row.cells[0])[0], codeSpans(row.cells[2])[0]
		got = append(got, fragment)
		if row.cells[1] != statuses[fragment] {
			t.Errorf("%s: status = %s, want %s as in docs/%s", at(errorsPage, row), row.cells[1], statuses[fragment], protocolPage)
		}
		status, err := strconv.Atoi(row.cells[1])
		if err != nil {
			t.Errorf("%s: status = %q, want a number", at(errorsPage, row), row.cells[1])
		}
		if e := (&idverify.Error{Status: status, Type: "#" + fragment}); !errors.Is(e, sentinels[name]) {
			t.Errorf("%s: an error with fragment %s does not match %s", at(errorsPage, row), fragment, name)
		}
	}

	slices.Sort(got)
	want := constantValues(t, "internal/wire", "BadRequest")
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("fragments = %q, want %q", got, want)
	}
}

func TestErrors_TokenCodes(t *testing.T) {
	t.Parallel()

	var got []string
	for _, row := range findTable(t, errorsPage, "Code").rows {
		code := codeSpans(row.cells[0])[0]
		got = append(got, code)
		want := "none"
		for name, sentinel := range sentinels {
			if errors.Is(&idverify.TokenError{Status: http.StatusBadRequest, Code: code}, sentinel) {
				want = "`" + name + "`"
			}
		}
		if row.cells[1] != want {
			t.Errorf("%s: error = %s, want %s", at(errorsPage, row), row.cells[1], want)
		}
	}

	slices.Sort(got)
	want := constantValues(t, "internal/wire", "InvalidRequest")
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("codes = %q, want %q", got, want)
	}
}

func TestErrors_ErrorCodes(t *testing.T) {
	t.Parallel()
	codes := func(page string) (codes []string) {
		for _, row := range findTable(t, page, "Error code").rows {
			codes = append(codes, row.cells[0])
		}
		return codes
	}

	if got, want := codes(errorsPage), codes(protocolPage); !slices.Equal(got, want) {
		t.Errorf("error codes = %q, want %q as in docs/%s", got, want, protocolPage)
	}
}

func TestErrors_Types(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(errorsPage)
	if err != nil {
		t.Fatal(err)
	}

	for file, names := range declarations(t) {
		if strings.Contains(file, "/") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		for name := range names {
			if typ, ok := strings.CutSuffix(name, ".Error"); ok && ast.IsExported(typ) && !strings.Contains(string(page), "`*"+typ+"`") {
				t.Errorf("docs/%s does not describe the error type %s", errorsPage, typ)
			}
		}
	}
}

// exportedErrors returns the sorted names of the exported variables Err… of a package, with a
// prefix.
func exportedErrors(t *testing.T, dir, prefix string) []string {
	t.Helper()
	var names []string
	for _, file := range packageFiles(t, dir) {
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					if strings.HasPrefix(name.Name, "Err") {
						names = append(names, prefix+name.Name)
					}
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

func sortedKeys(m map[string]error) []string { return slices.Sorted(maps.Keys(m)) }
