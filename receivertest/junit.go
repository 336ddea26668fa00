package receivertest

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

type junitSuite struct {
	XMLName   xml.Name    `xml:"testsuite"`
	Name      string      `xml:"name,attr"`
	Tests     int         `xml:"tests,attr"`
	Failures  int         `xml:"failures,attr"`
	Errors    int         `xml:"errors,attr"`
	Skipped   int         `xml:"skipped,attr"`
	Time      string      `xml:"time,attr"`
	Timestamp string      `xml:"timestamp,attr"`
	Cases     []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitFailure `xml:"failure"`
	Skipped *junitSkipped `xml:"skipped"`
}

type junitFailure struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

type junitSkipped struct {
	Message string `xml:"message,attr"`
}

// WriteJUnit writes the report as a test suite in the XML format of JUnit, which CI systems read.
// Each rule is a test case. A rule that is not applicable is skipped. Control characters, which XML
// cannot contain, are replaced.
func (r Report) WriteJUnit(w io.Writer) error {
	suite := junitSuite{
		Name:      "receivertest " + string(r.Kind) + " " + r.URL,
		Tests:     len(r.Findings),
		Failures:  len(r.Failed()),
		Skipped:   len(r.with(NotApplicable)),
		Time:      fmt.Sprintf("%.3f", r.Duration.Seconds()),
		Timestamp: r.Started.UTC().Format(time.RFC3339),
	}
	for _, f := range r.Findings {
		c := junitCase{Class: "receivertest." + string(r.Kind), Name: f.Rule}
		switch f.Result {
		case Fail:
			var text strings.Builder
			text.WriteString(f.Detail + "\n")
			for _, c := range f.Causes {
				text.WriteString(c.Text + "\n")
			}
			text.WriteString(f.Reason + "\n")
			if f.Curl != "" {
				text.WriteString("\n" + f.Curl + "\n")
			}
			c.Failure = &junitFailure{Type: string(f.Severity), Message: f.Detail, Text: text.String()}
		case NotApplicable:
			c.Skipped = &junitSkipped{Message: f.Detail}
		}
		suite.Cases = append(suite.Cases, c)
	}
	b := bufio.NewWriter(w)
	fmt.Fprint(b, xml.Header)
	enc := xml.NewEncoder(b)
	enc.Indent("", "  ")
	if err := enc.Encode(suite); err != nil {
		return err
	}
	fmt.Fprintln(b)
	return b.Flush()
}
