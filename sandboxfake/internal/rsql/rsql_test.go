package rsql_test

import (
	"cmp"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/sandboxfake/internal/rsql"
)

// item has a value of each type. Its match may be missing.
type item struct {
	status, phone, referenceID string
	match                      *bool
	amount                     float64
	created                    time.Time
}

var fields = map[string]rsql.Field[*item]{
	"status":       rsql.Text(func(i *item) string { return i.status }),
	"phone_number": rsql.Text(func(i *item) string { return i.phone }),
	"reference_id": rsql.Text(func(i *item) string { return i.referenceID }),
	"match": rsql.Bool(func(i *item) (bool, bool) {
		if i.match == nil {
			return false, false
		}
		return *i.match, true
	}),
	"charge_amount": func(searched rsql.Value) (func(*item) (int, bool), error) {
		amount, err := strconv.ParseFloat(searched.Text, 64)
		if err != nil {
			return nil, errors.New("a value must be a number")
		}
		return func(i *item) (int, bool) { return cmp.Compare(i.amount, amount), true }, nil
	},
	"created_at": rsql.Time(func(i *item) time.Time { return i.created }),
}

func TestParse_Expressions(t *testing.T) {
	t.Parallel()
	completed := &item{status: "COMPLETED", referenceID: "a,b", match: new(true), created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	pending := &item{status: "PENDING"}
	for _, row := range []struct {
		expression         string
		completed, pending bool
	}{
		{"status==COMPLETED", true, false},
		{"status!=COMPLETED", false, true},
		{"status==PENDING,status==COMPLETED", true, true},
		{"status==COMPLETED;status==PENDING", false, false},
		{"status==PENDING,status==COMPLETED;match==false", false, true},
		{"(status==PENDING,status==COMPLETED);match==true", true, false},
		{"match>=false", true, false},
		{"match<true", false, false},
		{"match!=true", false, true},
		{"match==false", false, false},
		{"reference_id=='a,b'", true, false},
		{`reference_id=="a\,b"`, true, false},
		{"created_at>=2026-01-02T03;created_at<2026-01-02T04", true, false},
		{"created_at==2026-01-02T04:04:05+0100", true, false},
		{"match=ge=false", true, false},
		{"match=lt=true", false, false},
		{"created_at=gt=2026;created_at=le=2027", true, false},
		{"created_at=gt=2026-01-02T03:04:05;status==COMPLETED", false, false},
		{"status=in=(PENDING,COMPLETED)", true, true},
		{"status=in=(PENDING)", false, true},
		{"status=in=PENDING", false, true},
		{"status=out=(PENDING,ACCEPTED)", true, false},
		{"match=in=(true,false)", true, false},
		{"match=out=(true,false)", false, true},
		{"reference_id=in=('b,a','a,b')", true, false},
		{"status==PENDING or status==COMPLETED", true, true},
		{"status==COMPLETED and status==PENDING", false, false},
		{"status==PENDING or status==COMPLETED and match==false", false, true},
		{"(status==PENDING or status=in=(COMPLETED)) and match==true", true, false},
		{"status==PENDING  or  status==COMPLETED", true, true},
		{"reference_id=='a,b' and status==COMPLETED", true, false},
		{"reference_id=='a,b' or match==false,status==PENDING", true, true},
		{"status==*", true, true},
		{"status==COM*", true, false},
		{"status==*NG", false, true},
		{"status==*E*D", true, false},
		{"status==C*M*L*D", true, false},
		{"status==COMPLETED*", true, false},
		{"status==*COMPLETED*", true, false},
		{"status==COMPL*LETED", false, false},
		{"status==P*P", false, false},
		{"status!=*E*", false, false},
		{"status!=P*", true, false},
		{"reference_id=='a*b'", true, false},
		{`reference_id=="a\*b"`, false, false},
		{"status=in=(*)", false, false},
		{"status>*", true, true},
	} {
		match, err := rsql.Parse(row.expression, fields)
		if err != nil {
			t.Errorf("%s: %v", row.expression, err)
			continue
		}

		if got := match(completed); got != row.completed {
			t.Errorf("%s: completed item: got %v, want %v", row.expression, got, row.completed)
		}
		if got := match(pending); got != row.pending {
			t.Errorf("%s: pending item: got %v, want %v", row.expression, got, row.pending)
		}
	}
}

func TestParse_RejectsInvalidExpressions(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		"status==COMPLETED and", "status==COMPLETED and ", " and status==COMPLETED", "status==COMPLETED andstatus==PENDING", "status==COMPLETEDand status==PENDING",
		"status==COMPLETED AND status==PENDING", "status==COMPLETED not status==PENDING", "status==COMPLETED ", "status == COMPLETED", "status==COMPLETED; status==PENDING",
		"status=in=", "status=in=()", "status=in=(PENDING", "status=in=(PENDING,)", "status=in=(PENDING;COMPLETED)", "status=in=(PENDING, COMPLETED)", "status==(PENDING)", "status=gt=(PENDING)",
		"status=eq=COMPLETED", "status=like=COMPLETED", "match==t*", "created_at==2026*", "charge_amount==*",
	} {
		if _, err := rsql.Parse(expression, fields); err == nil {
			t.Errorf("%s: no error", expression)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"status=in=(COMPLETED,'a b') and reference_id==a*b or match=out=(true)", "status==a and b", "status==a or reference_id=ge='*'", `reference_id=="a\**b"`, "status==COMPLETED", "match==true;created_at>=2026-01-02T03,reference_id!='a,b'", "(status==PENDING,(match!=false))", `phone_number=="4477\"`, "charge_amount<0.5", "((((", "==", "status==", "status===COMPLETED", "status<>COMPLETED", "reference_id==a!b", "a~b", "a b", `a\"'b`, "ä€"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fuzzValue(t, text)

		match, err := rsql.Parse(text, fields)

		if err != nil {
			if len(text) > 8 && strings.Contains(err.Error(), text) {
				t.Errorf("error contains the expression, which may be personal data: %v", err)
			}
			return
		}
		completed := &item{status: "COMPLETED", match: new(true)}
		matched := match(completed)
		if match(completed) != matched {
			t.Error("got different results for the same item, want the same result twice")
		}
		// An expression in parentheses is valid too, unless they are nested too deeply.
		if strings.Count(text, "(") < rsql.MaxDepth {
			grouped, err := rsql.Parse("("+text+")", fields)
			if err != nil || grouped(completed) != matched {
				t.Errorf("in parentheses: error = %v or a different result, want result %v", err, matched)
			}
		}
	})
}

// operatorWord is a word that ends an unquoted value.
var operatorWord = regexp.MustCompile(` +(and|or) `)

// fuzzValue searches for text as a value. A quoted value matches exactly itself. An unquoted value
// is valid only without reserved characters.
func fuzzValue(t *testing.T, text string) {
	t.Helper()
	escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`, `*`, `\*`).Replace(text)
	match, err := rsql.Parse(`reference_id=="`+escaped+`"`, fields)
	if err != nil || !match(&item{referenceID: text}) || match(&item{referenceID: text + "x"}) {
		t.Errorf("quoted value %q: error = %v or a wrong match, want a match of exactly this value", text, err)
	}
	pattern := strings.ReplaceAll(escaped, `\*`, "*")
	if match, err = rsql.Parse(`reference_id!="`+pattern+`"`, fields); err != nil || match(&item{referenceID: text}) || match(&item{referenceID: strings.ReplaceAll(text, "*", "xyz")}) {
		t.Errorf("quoted pattern %q: error = %v or a wrong match, want a match of itself with any text for *", text, err)
	}
	if strings.ContainsAny(text, ";,)") || text != "" && strings.ContainsAny(text[:1], `"'`) || operatorWord.MatchString(text) {
		return // text ends the value, or starts a quoted one
	}
	match, err = rsql.Parse("reference_id=="+text, fields)
	valid := text != "" && !strings.ContainsAny(text, `"'(=!~<> `)
	if (err == nil) != valid {
		t.Errorf("unquoted value %q: error = %v, want valid = %v", text, err, valid)
	}
	if err == nil && !match(&item{referenceID: text}) {
		t.Errorf("unquoted value %q: got no match, want a match of itself", text)
	}
}
