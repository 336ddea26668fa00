package sandboxfake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// badControl returns a bad_request problem.
func badControl(format string, args ...any) error {
	return newProblem(wire.BadRequest, fmt.Sprintf(format, args...))
}

// decodeControl decodes the body of a request into v. Unknown fields are errors, because a
// misspelled field could let a test pass for the wrong reason.
func decodeControl(r *http.Request, v any) error { return decodeControlUpTo(wire.MaxBody, r, v) }

// decodeControlUpTo is decodeControl for a body of at most limit bytes.
func decodeControlUpTo(limit int, r *http.Request, v any) error {
	body, err := readBodyUpTo(limit, r)
	switch {
	case errors.Is(err, errBodyTooLarge):
		return badControl("the body is too large")
	case err != nil:
		return badControl("the body is truncated")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		// encoding/json has no type for this error.
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return badControl("unknown field %s", field)
		}
		return badControl("%s", badJSON(body, err))
	}
	if _, err := decoder.Token(); err != io.EOF {
		return badControl("unexpected text after the JSON value in the body")
	}
	return nil
}

// checkControlQuery rejects query parameters that are not in known, because a misspelled parameter
// would have no effect.
func checkControlQuery(r *http.Request, known []string) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badControl("the query is malformed")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(known, name) {
			return badControl("unknown query parameter %q", name)
		}
	}
	return nil
}

// maxControlSeconds is 100 years, well within the range of time.Duration.
const maxControlSeconds = 100 * 365 * 24 * 3600

// controlSpan returns a number of seconds as a duration. The number must be between 0 and limit.
func controlSpan(name string, seconds float64, limit int64) (time.Duration, error) {
	if !(seconds >= 0 && seconds <= float64(limit)) { // rejects NaN too
		return 0, badControl("%s must be from 0 to %d", name, limit)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
