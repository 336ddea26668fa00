package doctest_test

import (
	"errors"
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
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
	"ErrSandbox":             idverify.ErrSandbox,
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

	for _, name := range slices.Concat(sortedKeys(sentinels), sortedKeys(reasons), exportedErrors(t, "inbox", "inbox."), exportedErrors(t, "redisstore", "redisstore."), exportedErrors(t, "checkflow", "checkflow.")) {
		if !got[name] {
			t.Errorf("docs/%s does not describe %s", errorsPage, name)
		}
	}
}

func TestErrors_SignInReasons(t *testing.T) {
	t.Parallel()
	var got []string
	for _, row := range findTable(t, errorsPage, "Reason").rows {
		got = append(got, codeSpans(row.cells[0])...)
	}

	if diff := cmp.Diff(constantValues(t, "checkflow", "ReasonEnded"), got); diff != "" {
		t.Errorf("reasons of docs/%s (-package checkflow +page):\n%s", errorsPage, diff)
	}
}

func TestErrors_ProblemCodes(t *testing.T) {
	t.Parallel()
	want := problemStatuses(t)

	got := make(map[string]string)
	for _, row := range findTable(t, errorsPage, "Problem code").rows {
		code, name := codeSpans(row.cells[0])[0], codeSpans(row.cells[2])[0]
		got[code] = row.cells[1]
		status, err := strconv.Atoi(row.cells[1])
		if err != nil {
			t.Errorf("%s: status = %q, want a number", at(errorsPage, row), row.cells[1])
		}
		if e := (&idverify.Error{Status: status, Type: "#" + code}); !errors.Is(e, sentinels[name]) {
			t.Errorf("%s: an error with code %s does not match %s", at(errorsPage, row), code, name)
		}
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("statuses of the problem codes (-fake +page):\n%s", diff)
	}
	if got, want := len(got), len(constantValues(t, "internal/wire", "BadRequest")); got != want {
		t.Errorf("docs/%s has %d problem codes, want %d", errorsPage, got, want)
	}
}

// problemStatuses returns the status of each problem code of the fake.
func problemStatuses(t *testing.T) map[string]string {
	t.Helper()
	names := make(map[string]string) // codes, by the names of their constants
	for _, m := range regexp.MustCompile(`(?m)^\t(\w+)\s+= "(\w+)"`).FindAllStringSubmatch(readPage(t, "../internal/wire/wire.go"), -1) {
		names[m[1]] = m[2]
	}
	statuses := make(map[string]string)
	files := must(fs.Glob(os.DirFS(root), "sandboxfake/*.go"))(t)
	for _, file := range files {
		for _, m := range regexp.MustCompile(`(?m)^\t\{(\d{3}), wire\.(\w+), `).FindAllStringSubmatch(readPage(t, "../"+file), -1) {
			statuses[names[m[2]]] = m[1]
		}
	}
	return statuses
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

func TestErrors_Types(t *testing.T) {
	t.Parallel()
	page := readPage(t, errorsPage)

	for file, names := range declarations(t) {
		if strings.Contains(file, "/") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		for name := range names {
			if typ, ok := strings.CutSuffix(name, ".Error"); ok && ast.IsExported(typ) && !strings.Contains(page, "`*"+typ+"`") {
				t.Errorf("docs/%s does not describe the error type %s", errorsPage, typ)
			}
		}
	}
}

// enumeration matches a list of 5XX statuses, such as "429, 500, 502, 503 and 504".
var enumeration = regexp.MustCompile(`(?:429, )?(5\d\d(?:, 5\d\d)+),? (?:and|or) (5\d\d)`)

// TestErrors_RetriedStatuses compares every list of 5XX statuses in the documents with the statuses
// after which the client sends a request, or a token request, again.
func TestErrors_RetriedStatuses(t *testing.T) {
	t.Parallel()
	pages := must(fs.Glob(os.DirFS(docs), "*.md"))(t)
	for _, path := range []string{wire.Token.Path, "/phone_check/v0.1/checks/a"} {
		var retried []string
		for status := 500; status <= 599; status++ {
			if countRequests(t, path, status) > 1 {
				retried = append(retried, strconv.Itoa(status))
			}
		}
		lists := 0
		for _, page := range append(pages, "../README.md") {
			for _, match := range enumeration.FindAllStringSubmatch(readPage(t, page), -1) {
				lists++
				if got := append(strings.Split(match[1], ", "), match[2]); !slices.Equal(got, retried) {
					t.Errorf("docs/%s: %q: want the statuses that are retried, %q", page, match[0], retried)
				}
			}
		}
		if lists < 5 {
			t.Errorf("found %d lists of statuses, want at least 5", lists)
		}
	}
	row := regexp.MustCompile("(?m)^\\| `\\*TokenError` \\|.*$").FindString(readPage(t, "../README.md"))
	if !enumeration.MatchString(row) || strings.Contains(row, "5XX") {
		t.Errorf("README.md: %s: want the statuses that are worth a retry", row)
	}
}

// countRequests returns the number of requests to path that a client makes if they get status.
func countRequests(t *testing.T, path string, status int) (n int) {
	t.Helper()
	credentials := idverify.Credentials{ClientID: "client", ClientSecret: idverify.NewSecret("s3cret-of-client")}
	client := must(idverify.NewClient("https://service.example.com", credentials,
		idverify.WithRetry(idverify.RetryPolicy{MinWait: 1, MaxWait: 1, Budget: -1}),
		idverify.WithHTTPClient(&http.Client{Transport: roundTripper(func(r *http.Request) *http.Response {
			response := httptest.NewRecorder()
			if r.URL.Path == path {
				n++
				response.WriteHeader(status)
			} else {
				response.WriteString(`{"access_token":"token"}`)
			}
			return response.Result()
		})})))(t)
	_, _ = client.PhoneChecks.Get(t.Context(), "a")
	return n
}

type roundTripper func(*http.Request) *http.Response

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// TestErrors_WithoutFragment compares the statuses of the row for responses of a proxy with those
// that match a sentinel.
func TestErrors_WithoutFragment(t *testing.T) {
	t.Parallel()
	row := regexp.MustCompile(`(?m)^.*it matches the first sentinel of the table with this status.*$`).FindString(readPage(t, errorsPage))
	_, list, _ := strings.Cut(row, "With status ")
	list, _, _ = strings.Cut(list, ", it matches")
	documented := make(map[int]bool)
	for _, match := range regexp.MustCompile(`(\d+)(?: to (\d+))?`).FindAllStringSubmatch(list, -1) {
		first, _ := strconv.Atoi(match[1])
		last := first
		if match[2] != "" {
			last, _ = strconv.Atoi(match[2])
		}
		for ; first <= last; first++ {
			documented[first] = true
		}
	}

	for status := 400; status <= 499; status++ {
		matches := false
		for _, sentinel := range sentinels {
			matches = matches || errors.Is(&idverify.Error{Status: status}, sentinel)
		}
		if matches != documented[status] {
			t.Errorf("docs/%s: a response %d without a fragment matches a sentinel: %t, want %t", errorsPage, status, documented[status], matches)
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
