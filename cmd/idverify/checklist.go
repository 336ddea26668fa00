package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
)

// listCommand is the command "check list".
type listCommand struct {
	*checkCommand
	status    idverify.CheckStatus
	reference string
	since     func(now time.Time) time.Time // nil without -since
	max       int                           // 0 for all
}

// newListCommand defines the flags of "check list".
func newListCommand(p *program) *listCommand {
	c := &listCommand{checkCommand: newCheckCommand(p, "check list", "", defaultTimeout)}
	c.flags.Func("status", "list only checks with this `status`: ACCEPTED, PENDING or COMPLETED", func(text string) error {
		switch c.status = idverify.CheckStatus(strings.ToUpper(text)); c.status {
		case idverify.StatusAccepted, idverify.StatusPending, idverify.StatusCompleted:
			return nil
		}
		return errors.New("must be ACCEPTED, PENDING or COMPLETED; checks that end as EXPIRED or ERROR are not stored")
	})
	c.flags.StringVar(&c.reference, "reference", "", "list only checks with this reference `ID`, oldest first")
	c.flags.Func("since", "list only checks that were created since this `time`: a duration such as 90m or 24h before now, or 2026-01-02T03:04:05Z", func(text string) (err error) {
		c.since, err = parseSince(text)
		return err
	})
	c.flags.IntVar(&c.max, "limit", 20, "list at most this `number` of checks; 0 for all")
	return c
}

// parseSince parses the value of -since.
func parseSince(text string) (func(now time.Time) time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return func(now time.Time) time.Time { return now.Add(-d) }, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, errors.New("must be a positive duration such as 24h, or a time such as 2026-01-02T03:04:05Z")
	}
	return func(time.Time) time.Time { return at }, nil
}

// checkList prints checks, newest first.
func checkList(ctx context.Context, p *program, args []string) int {
	c := newListCommand(p)
	arguments, code := c.start(ctx, args, 0)
	if code != exitOK || arguments == nil {
		return code
	}
	defer c.close()
	if c.max < 0 {
		return c.misused("check list", errors.New("-limit must not be negative"))
	}
	ctx, cancel := c.limit(ctx)
	defer cancel()
	if c.json {
		return c.writeJSON(c.checks(ctx, time.Now()))
	}
	return c.writeTable(c.checks(ctx, time.Now()))
}

// checks returns the selected checks. It reads each page when the iteration reaches it.
func (c *listCommand) checks(ctx context.Context, now time.Time) iter.Seq2[check, error] {
	all := c.all(ctx, now)
	return func(yield func(check, error) bool) {
		// Checks that are created in the meantime move others to later pages.
		seen := make(map[string]bool)
		for ck, err := range all {
			if err == nil && (seen[ck.CheckID] || c.status != "" && ck.Status != c.status) {
				continue
			}
			seen[ck.CheckID] = true
			if !yield(ck, err) || len(seen) == c.max {
				return
			}
		}
	}
}

// all returns the checks that the service or the client has found.
func (c *listCommand) all(ctx context.Context, now time.Time) iter.Seq2[check, error] {
	var since time.Time
	if c.since != nil {
		since = c.since(now).UTC().Truncate(time.Second)
	}
	if c.reference != "" {
		return func(yield func(check, error) bool) {
			found, err := c.service.find(ctx, c.reference)
			if err != nil {
				yield(check{}, err)
				return
			}
			for _, ck := range found {
				if !ck.CreatedAt.Before(since) && !yield(ck, nil) {
					return
				}
			}
		}
	}
	var search []string
	if c.status != "" {
		search = append(search, "status=="+string(c.status))
	}
	if c.since != nil {
		search = append(search, "created_at>="+since.Format("2006-01-02T15:04:05-0700"))
	}
	size := 100
	if c.max > 0 && c.max < size {
		size = c.max
	}
	return c.service.all(ctx, idverify.ListOptions{Size: size, Search: strings.Join(search, ";")})
}

// pageRows is the number of rows that are aligned with each other. The columns are padded, so that
// those of all pages usually have the same width.
const pageRows = 100

// resultHeader returns the header of the results, padded to the longest result of the product.
func (c *listCommand) resultHeader() string {
	longest := map[idverify.Product]string{
		idverify.ProductPhoneCheck: "no match", idverify.ProductSIMCheck: "SIM unchanged", idverify.ProductSubscriberCheck: "match, SIM unchanged",
	}
	return fmt.Sprintf("%-*s", len(longest[c.product]), "RESULT")
}

// writeTable prints checks as they are read.
func (c *listCommand) writeTable(checks iter.Seq2[check, error]) int {
	t := newTable(c.stdout)
	count := 0
	for ck, err := range checks {
		if err != nil {
			t.flush()
			return c.fail(err)
		}
		if count == 0 {
			t.values("CREATED (UTC)", "CHECK ID", "STATUS   ", "NUMBER", c.resultHeader(), "CHARGE", "REFERENCE ID")
		}
		t.values(shortTime(ck.CreatedAt), ck.CheckID, fmt.Sprintf("%-9s", ck.Status), fmt.Sprintf("%-6s", ck.number(c.showNumbers)),
			fmt.Sprintf("%-*s", len(c.resultHeader()), ck.result()), fmt.Sprintf("%-6s", ck.charge()), ck.ReferenceID)
		if count++; count%pageRows == 0 {
			t.flush()
		}
	}
	t.flush()
	switch {
	case count == 0 && c.reference != "":
		fmt.Fprintln(c.stderr, "No check found. This does not prove that none was created: see "+docsURL+"errors.md#outcome-unknown")
	case count == 0:
		fmt.Fprintf(c.stderr, "No %s found.\n", c.service.title)
	case count == c.max:
		fmt.Fprintf(c.stderr, "There may be more: -limit %d.\n", c.max)
	}
	return exitOK
}

// writeJSON prints checks as one document, of which each check is written when it is read. After an
// error the document is incomplete, so that it cannot be mistaken for the whole list.
func (c *listCommand) writeJSON(checks iter.Seq2[check, error]) int {
	separator := fmt.Sprintf("{\n  \"product\": %q,\n  \"checks\": [\n    ", c.product)
	empty := true
	for ck, err := range checks {
		if err != nil {
			return c.fail(err)
		}
		ck.PhoneNumber = ck.number(c.showNumbers)
		text, err := encode(ck, "")
		if err != nil {
			return c.fail(err)
		}
		fmt.Fprint(c.stdout, separator+strings.TrimSuffix(text, "\n"))
		separator, empty = ",\n    ", false
	}
	if empty {
		fmt.Fprintf(c.stdout, "{\n  \"product\": %q,\n  \"checks\": []\n}\n", c.product)
		return exitOK
	}
	fmt.Fprint(c.stdout, "\n  ]\n}\n")
	return exitOK
}
