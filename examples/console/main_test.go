package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRun_PrintsSteps(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer

	err := run(t.Context(), &out)

	if err != nil {
		t.Fatal(err)
	}
	want := `1. Ada signed up; her workspace has an initial balance of 100 API
2. Created project Shop in mode sandbox; logs show its secret as [REDACTED]
3. Top-up failed: company_details_required: add the company details first
4. Company details: Ada Ltd, London
5. Payment method: card ending in 4242
6. Topped up: 25 EUR; the currency is now fixed, and the initial balance is gone
7. Project Shop is in mode live: checks are now charged
8. First paid check: it cost 0.05 EUR; the balance is 24.95
9. Usage: 1 phone_check for 0.05 EUR
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
