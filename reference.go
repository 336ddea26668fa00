package idverify

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/idverify/idverify-go/internal/wire"
)

// findByReferenceID reads the pages of op, the list of checks with the given reference ID. Function
// ids returns the check ID and the reference ID of a check.
func findByReferenceID[T any](ctx context.Context, op wire.Operation, referenceID string, list func(context.Context, ListOptions) (*Page[T], error), ids func(*T) (checkID, referenceID string)) ([]*T, error) {
	switch {
	case referenceID == "":
		return nil, invalidArgument(op, "referenceID is empty")
	case !utf8.ValidString(referenceID):
		return nil, invalidArgument(op, "referenceID is not valid UTF-8") // JSON cannot contain it
	}
	var found []*T
	listed, seen := 0, make(map[string]bool)
	// In ascending order, checks that are created in the meantime do not move others to later pages.
	for check, err := range all(ctx, ListOptions{Size: 100, Sort: "created_at,asc", Search: "reference_id==" + quoteRSQL(referenceID)}, list) {
		if err != nil {
			return nil, err
		}
		if listed++; listed > maxListedByReference {
			return nil, &DecodeError{Operation: op.Name, Status: op.Success, Reason: fmt.Sprintf("more than %d checks", maxListedByReference)}
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

// maxListedByReference is the maximum number of checks that the pages of a search by reference ID
// may contain.
const maxListedByReference = 10_000

// quoteRSQL returns s as a quoted value of an RSQL expression.
func quoteRSQL(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
