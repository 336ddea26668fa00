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

// badControl returns the problem of an invalid call.
func badControl(format string, args ...any) error {
	return newProblem(wire.BadRequest, fmt.Sprintf(format, args...))
}

// decodeControl reads the body of a call into v. An unknown field is an error, because a misspelled
// one would let a test pass for the wrong reason.
func decodeControl(r *http.Request, v any) error {
	body, err := readBody(r.Body)
	switch {
	case errors.Is(err, errBodyTooLarge):
		return badControl("The body is too large")
	case err != nil:
		return badControl("The body is truncated")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		// encoding/json has no type for this error.
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return badControl("The field %s is unknown", field)
		}
		return badControl("%s", badJSON(err))
	}
	if _, err := decoder.Token(); err != io.EOF {
		return badControl("The body has text after its JSON")
	}
	return nil
}

// checkControlQuery rejects a query with a parameter that is not in known, because a misspelled one
// would have no effect.
func checkControlQuery(r *http.Request, known []string) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badControl("The query is malformed")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(known, name) {
			return badControl("The query parameter %q is unknown", name)
		}
	}
	return nil
}

// maxControlSeconds is a hundred years, well within a time.Duration.
const maxControlSeconds = 100 * 365 * 24 * 3600

// controlSpan returns a duration that was given in seconds, at most limit.
func controlSpan(name string, seconds float64, limit int64) (time.Duration, error) {
	if !(seconds >= 0 && seconds <= float64(limit)) { // rejects NaN too
		return 0, badControl("%s must be from 0 to %d", name, limit)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
