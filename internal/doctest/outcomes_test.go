package doctest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestProtocol_PhoneOutcomes(t *testing.T) {
	t.Parallel()
	tb := findTable(t, protocolPage, "Number ends in")
	outcomes := []func(string) sandboxfake.Outcome{
		sandboxfake.PhoneCheckOutcome,
		sandboxfake.SIMCheckOutcome,
		sandboxfake.SubscriberCheckOutcome,
	}

	for ending := range 100 {
		number := fmt.Sprintf("4477009001%02d", ending)
		row := rowWithEnding(t, tb, number)
		for i, outcome := range outcomes {
			if got, want := describeOutcome(outcome(number)), row.cells[i+1]; got != want {
				t.Errorf("%s: %s of a number that ends in %02d = %q, want %q", at(protocolPage, row), tb.header[i+1], ending, got, want)
			}
		}
	}
}

func TestProtocol_AddressOutcomes(t *testing.T) {
	t.Parallel()
	tb := findTable(t, protocolPage, "Address ends in")
	addresses := []string{"2001:db8::a", "2001:db8::b0", "2001:db8::", "2001:db8::f99"}
	for last := range 256 {
		addresses = append(addresses, fmt.Sprintf("192.0.2.%d", last), fmt.Sprintf("2001:db8::%x", last))
	}

	for _, text := range addresses {
		addr := netip.MustParseAddr(text)
		row := rowWithEnding(t, tb, addr.StringExpanded())
		status, fragment := sandboxfake.ReachabilityOutcome(addr)
		if fragment == "" {
			fragment = "none"
		} else {
			fragment = "`" + fragment + "`"
		}
		if row.cells[1] != strconv.Itoa(status) || row.cells[2] != fragment {
			t.Errorf("%s: outcome of %s = %d %s, want %s %s", at(protocolPage, row), text, status, fragment, row.cells[1], row.cells[2])
		}
	}
}

// The page lists the error codes that the control plane can choose.
func TestErrors_ErrorCodes(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithControl(sandboxfake.ControlOptions{}))
	request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL()+"/_sandbox/outcomes", nil))(t)
	request.Header.Set("Authorization", "Bearer "+srv.ControlToken())
	response := must(srv.HTTPClient().Do(request))(t)
	defer response.Body.Close()
	var list struct {
		Outcomes []struct {
			ErrorCode string `json:"error_code"`
		}
	}
	noError(t, json.NewDecoder(response.Body).Decode(&list))
	var want []string
	for _, outcome := range list.Outcomes {
		if outcome.ErrorCode != "" {
			want = append(want, "`"+outcome.ErrorCode+"`")
		}
	}

	var got []string
	for _, row := range findTable(t, errorsPage, "Error code").rows {
		got = append(got, row.cells[0])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("error codes in docs/%s (-fake +page):\n%s", errorsPage, diff)
	}
	var constants []string
	for _, value := range constantValues(t, ".", "ErrorCodeNotMobileIP") {
		constants = append(constants, "`"+value+"`")
	}
	if diff := cmp.Diff(constants, got); diff != "" {
		t.Errorf("error codes in docs/%s (-constants +page):\n%s", errorsPage, diff)
	}
}

// rowWithEnding returns the first row whose first cell lists an ending of text.
func rowWithEnding(t *testing.T, tb table, text string) tableRow {
	t.Helper()
	for _, row := range tb.rows {
		for ending := range strings.SplitSeq(row.cells[0], ", ") {
			if strings.HasSuffix(text, ending) {
				return row
			}
		}
	}
	t.Fatalf("section %q has no row for %s", tb.section, text)
	return tableRow{}
}

// describeOutcome returns an outcome as the table of the protocol writes it.
func describeOutcome(o sandboxfake.Outcome) string {
	text := string(o.Status)
	if o.Match != idverify.VerdictUnknown {
		text += fmt.Sprintf(", match %t", o.Match == idverify.VerdictYes)
	}
	if o.NoSIMChange != idverify.VerdictUnknown {
		text += fmt.Sprintf(", no_sim_change %t", o.NoSIMChange == idverify.VerdictYes)
	}
	if o.Status == idverify.StatusError && o.ErrorCode != "mno_server_error" {
		text += ", " + o.ErrorCode
	}
	return text
}
