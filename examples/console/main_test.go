package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheProgramGetsFromNothingToAPaidCheck(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer

	err := run(t.Context(), &out)

	if err != nil {
		t.Fatal(err)
	}
	want := `1. Ada signed up: her workspace begins with 100 API to try things
2. Project Shop in mode sandbox; its secret goes to the vault, not to the log: [REDACTED]
3. Too early, company_details_required: Add the company details first
4. Company details: Ada Ltd, London
5. Payment method: card ending in 4242
6. Topped up: 25 EUR; the first top-up fixed the currency, and what was left in API is gone
7. Project Shop is now in mode live: from here on checks cost money
8. First paid check: it cost 0.05 EUR, and 24.95 is left
9. Usage: 1 call of phone_check for 0.05 EUR
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
