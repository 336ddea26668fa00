package idverify

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/idverify/idverify-go/internal/wire"
)

// findByReferenceID reads the pages of op, the list of checks with the given reference ID. Function
// ids returns the check ID and the reference ID of a check.
func findByReferenceID[J resourceJSON[T], T any](ctx context.Context, a *api, op wire.Operation, referenceID string, ids func(*T) (checkID, referenceID string)) ([]*T, error) {
	switch {
	case referenceID == "":
		return nil, invalidArgument(op, "referenceID is empty")
	case !utf8.ValidString(referenceID):
		return nil, invalidArgument(op, "referenceID is not valid UTF-8") // JSON cannot contain it
	}
	tooMany := func(limit string) error {
		return &DecodeError{Operation: op.Name, Status: op.Success, Reason: "more than " + limit}
	}
	read := 0 // bytes
	list := func(ctx context.Context, o ListOptions) (*Page[T], error) {
		page, size, err := sizedList[J](ctx, a, listOf(op, o), "checks")
		if read += size; err == nil && read > maxReadByReference {
			return nil, tooMany("64 MiB of checks")
		}
		return page, err
	}
	var found []*T
	listed, seen := 0, make(map[string]bool)
	// In ascending order, checks that are created in the meantime do not move others to later pages.
	for check, err := range all(ctx, ListOptions{Size: 100, Sort: "created_at,asc", Search: "reference_id==" + quoteRSQL(referenceID)}, list) {
		if err != nil {
			return nil, err
		}
		if listed++; listed > maxListedByReference {
			return nil, tooMany("10,000 checks")
		}
		// The service may compare in another way, for example without case or with wildcards.
		checkID, reference := ids(check)
		if reference == referenceID && !seen[checkID] {
			seen[checkID] = true
			found = append(found, check)
		}
	}
	return found, nil
}

// Limits of a search by reference ID: the number of checks on its pages, and the size of the pages
// in bytes. One page has at most maxBody bytes.
const (
	maxListedByReference = 10_000
	maxReadByReference   = 64 << 20
)

// quoteRSQL returns s as a quoted value of an RSQL expression.
func quoteRSQL(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
