package inbox

import (
	"database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/redact"
)

// databaseError returns an error that matches err. Its text, and that of the errors that it wraps,
// contains no host and no address of the database. A message of the server may contain the names of
// the user, the database and tables. Errors of this package are returned unchanged.
func databaseError(err error) error {
	if err == nil {
		return nil
	}
	for _, own := range []error{ErrReferenceUsed, ErrNotFound, ErrConflict, idverify.ErrBadRequest, sql.ErrNoRows} {
		if errors.Is(err, own) {
			return err
		}
	}
	redacted := redact.Error(&driverError{err})
	if state := sqlState(err); state != "" {
		return &stateError{redacted, state}
	}
	return redacted
}

// stateError adds the SQLSTATE to a redacted error, which hides the methods of its original.
type stateError struct {
	error
	state string
}

// SQLState implements sqlStateError.
func (e *stateError) SQLState() string { return e.state }

// Unwrap returns the redacted error.
func (e *stateError) Unwrap() error { return e.error }

// driverError is an error of the database. Drivers add the address to the errors that they wrap, so
// its text consists of the innermost errors.
type driverError struct{ err error }

// Error implements error.
func (e *driverError) Error() string {
	var texts []string
	for _, text := range innermost(e.err) {
		if !slices.Contains(texts, text) { // several addresses of a host often fail for the same reason
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the error of the driver.
func (e *driverError) Unwrap() error { return e.err }

// innermost returns the texts of the errors that wrap no others, or that come from the server.
func innermost(err error) []string {
	switch e := err.(type) {
	case sqlStateError:
		return []string{e.Error()}
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return innermost(inner)
		}
	case interface{ Unwrap() []error }:
		var texts []string
		for _, inner := range e.Unwrap() {
			texts = append(texts, innermost(inner)...)
		}
		return texts
	}
	return []string{err.Error()}
}
