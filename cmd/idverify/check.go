package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
)

// checkCommand is a command for checks of one product.
type checkCommand struct {
	*connection
	flags   *flag.FlagSet
	product idverify.Product
	version string
	service checkService // set by start
}

// defaultTimeout is the default of -timeout for commands that do not wait for a device.
const defaultTimeout = 30 * time.Second

// newCheckCommand defines the flags that all commands for checks have.
func newCheckCommand(p *program, name, arguments string, timeout time.Duration) *checkCommand {
	flags := newFlags(name, arguments)
	c := &checkCommand{connection: newConnection(p, flags, timeout), flags: flags, product: idverify.ProductPhoneCheck}
	flags.Func("product", "`product` of the check: phone_check, sim_check or subscriber_check (default phone_check)", func(text string) error {
		c.product = idverify.Product(text)
		if !slices.Contains(products(), c.product) {
			return errors.New("must be phone_check, sim_check or subscriber_check")
		}
		return nil
	})
	flags.StringVar(&c.version, "version", "", "`version` of the product's API, such as v0.2 (default v0.1)")
	flags.BoolVar(&c.showNumbers, "show-numbers", false, "print whole phone numbers, not only their last two digits")
	return c
}

// start parses args, which must contain the given number of arguments, and connects to the service.
// The caller must call close. arguments is nil if the command must end with code.
func (c *checkCommand) start(ctx context.Context, args []string, count int) (arguments []string, code int) {
	arguments, code, ok := c.parseArguments(c.flags, args, count, count)
	if !ok {
		return nil, code
	}
	return arguments, c.connect(ctx)
}

// connect connects to the service, and returns the exit code of a failure or exitOK.
func (c *checkCommand) connect(ctx context.Context) int {
	code, ok := c.open(ctx)
	if ok {
		c.service = newCheckService(c.client, c.product, c.version)
	}
	return code
}

// commandFor returns the command line of another command for the same service, product and version.
func (c *checkCommand) commandFor(name, arguments string) string {
	line := "idverify " + name
	if c.fake {
		line += " -fake"
	}
	if c.product != idverify.ProductPhoneCheck {
		line += " -product " + string(c.product)
	}
	if c.version != "" {
		line += " -version " + shellQuote(c.version)
	}
	return strings.TrimSpace(line + " " + arguments)
}

// failRead prints an error of a command that reads a check.
func (c *checkCommand) failRead(err error) int {
	_, ended := errors.AsType[*idverify.NoResultError](err)
	rejected, _ := errors.AsType[*idverify.Error](err)
	if ended || rejected != nil && rejected.Code() == idverify.CodeCheckNotFound {
		missing := "a SIMCheck that ends as ERROR is not stored and has no callback: only its create reports it"
		if c.service.device {
			missing = "read the callback of the check: a check that ends as EXPIRED or ERROR is not stored"
		}
		return c.fail(err, missing,
			"set -product if the check is not a "+c.service.title,
			c.commandFor("check list", ""))
	}
	return c.fail(err)
}

// createCommand is the command "check create".
type createCommand struct {
	*checkCommand
	params          createParams
	yes, open, wait bool
}

// newCreateCommand defines the flags of "check create".
func newCreateCommand(p *program) *createCommand {
	c := &createCommand{checkCommand: newCheckCommand(p, "check create", "NUMBER\n\n"+
		"NUMBER is a phone number in international format, or - to read it from stdin:\n"+
		"other users of this machine can see arguments.\n", defaultTimeout)}
	c.flags.StringVar(&c.params.referenceID, "reference", "", "your own `ID` for the check; random by default")
	c.flags.StringVar(&c.params.callbackURL, "callback-url", "", "`URL` that receives the result; by default that of the project")
	c.flags.StringVar(&c.params.redirectURL, "redirect-url", "", "`URL` to which the device returns with a code; requires -version v0.2")
	c.flags.BoolVar(&c.yes, "yes", false, "create the check without a question; required if stdin is not a terminal")
	c.flags.BoolVar(&c.wait, "wait", false, "wait for the result, like the command check wait")
	c.flags.BoolVar(&c.open, "open", false, "open the Check URL as the phone; requires -fake")
	return c
}

// checkCreate creates a check, and waits for its result with -wait.
func checkCreate(ctx context.Context, p *program, args []string) int {
	c := newCreateCommand(p)
	arguments, code, ok := p.parseArguments(c.flags, args, 1, 1)
	if !ok {
		return code
	}
	if err := c.invalid(); err != nil {
		return c.misused("check create", err)
	}
	ask := !c.fake && !c.yes
	if ask && !isTerminal(c.stdin) {
		fmt.Fprintln(c.stderr, "idverify: check create: not sent: in a live project, a check costs money, and the program cannot find out the mode of the project (set -yes to create the check)")
		return exitUsage
	}
	if code := c.connect(ctx); code != exitOK {
		return code
	}
	defer c.close()
	if code, ok := c.readNumber(ctx, arguments[0], ask); !ok {
		return code
	}
	return c.run(ctx)
}

// invalid returns why the flags cannot be used together, or nil.
func (c *createCommand) invalid() error {
	switch {
	case c.open && !c.fake:
		return errors.New("-open requires -fake (only the device with the number can open the Check URL)")
	case c.open && c.params.redirectURL != "":
		return errors.New("-open and -redirect-url cannot be used together (the fake cannot reach the URL)")
	case c.product == idverify.ProductSIMCheck && (c.open || c.params.callbackURL != "" || c.params.redirectURL != ""):
		return errors.New("a SIMCheck has no device: -open, -callback-url and -redirect-url are not supported")
	}
	return nil
}

// readNumber reads and normalizes the number, and requests confirmation if ask is set. It returns
// false if the command must end with code.
//
// A check of a live project costs money. Project credentials do not disclose the mode of their
// project, so the command cannot know whether the check is free.
func (c *createCommand) readNumber(ctx context.Context, argument string, ask bool) (code int, ok bool) {
	input := bufio.NewReader(io.LimitReader(c.stdin, 4096))
	var err error
	if argument == "-" {
		if isTerminal(c.stdin) {
			fmt.Fprint(c.stderr, "Phone number: ")
		}
		if argument, err = readLine(ctx, input); err != nil {
			return c.fail(fmt.Errorf("read the number: %w", err)), false
		}
	}
	if c.params.number, err = idverify.NormalizePhoneNumber(argument); err != nil {
		return c.fail(err), false
	}
	if !ask {
		return exitOK, true
	}
	if c.confirm(ctx, input, fmt.Sprintf("Create a check of %s? In a live project, it costs money.", maskNumber(c.params.number))) {
		return exitOK, true
	}
	fmt.Fprintln(c.stderr, "Not created.")
	return exitError, false
}

// run creates the check.
func (c *createCommand) run(ctx context.Context) int {
	if c.params.referenceID == "" {
		c.params.referenceID = "idverify-" + rand.Text()
	}
	find := c.commandFor("check list", "-reference "+shellQuote(c.params.referenceID))
	fmt.Fprintf(c.stderr, "Creating a %s of %s with reference ID %s\n",
		c.service.title, maskNumber(c.params.number), clean(c.params.referenceID, lineLength))
	limited, cancel := c.limit(ctx)
	created, err := c.service.create(limited, c.params)
	cancel()
	if errors.Is(err, idverify.ErrOutcomeUnknown) {
		return c.fail(err, "find the check before you create it again: it may exist and may have been charged", find)
	}
	if err != nil {
		return c.fail(err)
	}
	c.explainCharge(created)
	if !c.json || !c.wait {
		c.printCheck(created)
	} else if created.CheckURL != "" {
		fmt.Fprintf(c.stderr, "Check ID: %s\nCheck URL: %s\n", clean(created.CheckID, lineLength), clean(created.CheckURL, lineLength))
	}
	if c.open {
		if err := c.openAsDevice(ctx, created); err != nil {
			return c.fail(err)
		}
	}
	switch {
	case !c.wait:
		return exitOK
	case created.Status.Final():
		return c.finish(created, !c.json)
	}
	return c.waitFor(ctx, created.CheckID, true)
}

// explainCharge warns of a check that was not charged.
func (c *createCommand) explainCharge(created check) {
	amount, ok := new(big.Rat).SetString(created.ChargeAmount)
	if c.fake || ok && amount.Sign() != 0 {
		return
	}
	fmt.Fprintln(c.stderr, "The check was not charged. In a sandbox project, only the digits of the number determine the result:")
	fmt.Fprintln(c.stderr, "see "+docsURL+"production.md#sandbox-credentials-in-production")
}

// openAsDevice opens the Check URL in the fake, and exchanges the code of version v0.2.
func (c *createCommand) openAsDevice(ctx context.Context, created check) error {
	code, err := c.openCheckURL(ctx, created.CheckURL)
	if err != nil || code == "" {
		return err
	}
	if _, err = c.service.complete(ctx, created.CheckID, code); err == nil {
		fmt.Fprintln(c.stderr, "Exchanged the code of the device for the result.")
	}
	return err
}

// confirm asks a question, and reports whether the reply is yes.
func (p *program) confirm(ctx context.Context, input *bufio.Reader, question string) bool {
	fmt.Fprint(p.stderr, question+" [y/N] ")
	reply, err := readLine(ctx, input)
	return err == nil && (strings.EqualFold(reply, "y") || strings.EqualFold(reply, "yes"))
}

// readLine reads a line without white space around it. It returns when ctx is done, although a read
// from a terminal cannot be interrupted: its goroutine then ends with the program.
func readLine(ctx context.Context, input *bufio.Reader) (string, error) {
	type result struct {
		line string
		err  error
	}
	read := make(chan result, 1)
	go func() {
		line, err := input.ReadString('\n')
		if err == io.EOF && line != "" {
			err = nil
		}
		read <- result{strings.TrimSpace(line), err}
	}()
	select {
	case r := <-read:
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// newGetCommand defines the flags of "check get".
func newGetCommand(p *program) *checkCommand {
	return newCheckCommand(p, "check get", "CHECK_ID", defaultTimeout)
}

// checkGet prints a check.
func checkGet(ctx context.Context, p *program, args []string) int {
	c := newGetCommand(p)
	return c.withCheckID(ctx, args, func(ctx context.Context, checkID string) int {
		got, err := c.service.get(ctx, checkID)
		if err != nil {
			return c.failRead(err)
		}
		return c.printCheck(got)
	})
}

// withCheckID connects to the service, and calls run with the only argument. It returns the exit
// code.
func (c *checkCommand) withCheckID(ctx context.Context, args []string, run func(ctx context.Context, checkID string) int) int {
	arguments, code := c.start(ctx, args, 1)
	if code != exitOK || arguments == nil {
		return code
	}
	defer c.close()
	ctx, cancel := c.limit(ctx)
	defer cancel()
	return run(ctx, arguments[0])
}

// newWaitCommand defines the flags of "check wait".
func newWaitCommand(p *program) *checkCommand {
	return newCheckCommand(p, "check wait", "CHECK_ID", 0)
}

// checkWait waits until a check has ended. The exit code is 0 only if every verdict is yes.
func checkWait(ctx context.Context, p *program, args []string) int {
	c := newWaitCommand(p)
	return c.withCheckID(ctx, args, func(ctx context.Context, checkID string) int {
		return c.waitFor(ctx, checkID, false)
	})
}

// waitFor waits until the check has ended. If brief is set, it prints only what has changed.
func (c *checkCommand) waitFor(ctx context.Context, checkID string, brief bool) int {
	fmt.Fprintln(c.stderr, "Waiting for the result.")
	ended, err := c.service.wait(ctx, checkID)
	switch e, isEnded := errors.AsType[*idverify.NoResultError](err); {
	case err == nil:
		return c.finish(ended, brief)
	case isEnded:
		if c.json {
			without := check{Product: c.product, CheckID: checkID, Status: e.Status, ErrorCode: e.ErrorCode}
			if c.service.device {
				without.Match = new(idverify.VerdictUnknown)
			}
			if c.product != idverify.ProductPhoneCheck {
				without.NoSIMChange = new(idverify.VerdictUnknown)
			}
			c.printCheck(without)
		}
		return c.failRead(err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return c.fail(err, c.commandFor("check wait", shellQuote(checkID)))
	}
	return c.failRead(err)
}

// finish prints a check that has ended, and returns the exit code.
func (c *checkCommand) finish(ended check, brief bool) int {
	if brief && !c.json {
		c.printRows([]row{{"Status", string(ended.Status)}, {"Result", ended.result()}})
	} else {
		c.printCheck(ended)
	}
	if !ended.verified() {
		return exitProblem
	}
	return exitOK
}

// trace is the JSON of a trace. It is documented in docs/tools.md.
type trace struct {
	TraceID string     `json:"trace_id"`
	Logs    []traceLog `json:"logs"`
}

type traceLog struct {
	Timestamp  time.Time      `json:"timestamp"`
	Message    string         `json:"message"`
	Attributes map[string]any `json:"attributes,omitempty"`
}

// newTracesCommand defines the flags of "check traces".
func newTracesCommand(p *program) *checkCommand {
	return newCheckCommand(p, "check traces", "CHECK_ID", defaultTimeout)
}

// checkTraces prints the recorded steps of a check.
func checkTraces(ctx context.Context, p *program, args []string) int {
	c := newTracesCommand(p)
	return c.withCheckID(ctx, args, c.readTraces)
}

func (c *checkCommand) readTraces(ctx context.Context, checkID string) int {
	got, err := c.service.traces(ctx, checkID)
	if err != nil {
		return c.failRead(err)
	}
	traces := make([]trace, len(got))
	for i, t := range got {
		traces[i] = trace{t.TraceID, make([]traceLog, len(t.Logs))}
		for j, l := range t.Logs {
			if !c.showNumbers {
				l.Message = mask(l.Message)
				l.Attributes, _ = maskValue(l.Attributes).(map[string]any)
			}
			traces[i].Logs[j] = traceLog{l.Timestamp, l.Message, l.Attributes}
		}
	}
	if c.json {
		return c.printJSON(struct {
			Product idverify.Product `json:"product"`
			CheckID string           `json:"check_id"`
			Traces  []trace          `json:"traces"`
		}{c.product, checkID, traces})
	}
	c.printTraces(traces)
	return exitOK
}

func (c *checkCommand) printTraces(traces []trace) {
	w := newTable(c.stdout)
	w.values("TIME (UTC)", "MESSAGE", "ATTRIBUTES")
	for _, t := range traces {
		for _, l := range t.Logs {
			var attributes []string
			for _, name := range slices.Sorted(maps.Keys(l.Attributes)) {
				value, ok := l.Attributes[name].(string)
				if !ok {
					text, err := json.Marshal(l.Attributes[name])
					value = string(text)
					if err != nil {
						value = "?"
					}
				}
				attributes = append(attributes, clean(name, cellLength)+"="+clean(value, cellLength))
			}
			w.line(shortTime(l.Timestamp), clean(l.Message, cellLength), strings.Join(attributes, " "))
		}
	}
	w.flush()
}

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
		return c.writeJSON(c.checks(ctx, c.now()))
	}
	return c.writeTable(c.checks(ctx, c.now()))
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

// check is a check of any product, as the commands print it. Its JSON is documented in
// docs/tools.md.
type check struct {
	Product     idverify.Product     `json:"product"`
	CheckID     string               `json:"check_id"`
	Status      idverify.CheckStatus `json:"status"` // empty if it is unknown
	PhoneNumber string               `json:"phone_number,omitempty"`

	// Match and NoSIMChange are nil if they do not apply to the product.
	Match       *idverify.Verdict `json:"match,omitempty"`
	NoSIMChange *idverify.Verdict `json:"no_sim_change,omitempty"`

	CheckURL       string    `json:"check_url,omitempty"`
	ChargeAmount   string    `json:"charge_amount,omitempty"`
	ChargeCurrency string    `json:"charge_currency,omitempty"`
	CreatedAt      time.Time `json:"created_at,omitzero"`
	UpdatedAt      time.Time `json:"updated_at,omitzero"`
	TTLSeconds     int64     `json:"ttl_seconds,omitempty"`
	NetworkID      string    `json:"network_id,omitempty"`
	ErrorCode      string    `json:"error_code,omitempty"`
	ReferenceID    string    `json:"reference_id,omitempty"`
	CallbackURL    string    `json:"callback_url,omitempty"`
}

func ofPhoneCheck(c *idverify.PhoneCheck) check {
	if c == nil {
		return check{}
	}
	return check{
		Product: idverify.ProductPhoneCheck, CheckID: c.CheckID, Status: c.Status, PhoneNumber: c.PhoneNumber,
		Match: new(c.Match), CheckURL: c.CheckURL,
		ChargeAmount: c.ChargeAmount.String(), ChargeCurrency: c.ChargeCurrency,
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt, TTLSeconds: int64(c.TTL / time.Second),
		NetworkID: c.NetworkID, ErrorCode: c.ErrorCode, ReferenceID: c.ReferenceID, CallbackURL: c.CallbackURL,
	}
}

func ofSIMCheck(c *idverify.SIMCheck) check {
	if c == nil {
		return check{}
	}
	return check{
		Product: idverify.ProductSIMCheck, CheckID: c.CheckID, Status: c.Status, PhoneNumber: c.PhoneNumber,
		NoSIMChange:  new(c.NoSIMChange),
		ChargeAmount: c.ChargeAmount.String(), ChargeCurrency: c.ChargeCurrency,
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt, TTLSeconds: int64(c.TTL / time.Second),
		NetworkID: c.NetworkID, ErrorCode: c.ErrorCode, ReferenceID: c.ReferenceID,
	}
}

func ofSubscriberCheck(c *idverify.SubscriberCheck) check {
	if c == nil {
		return check{}
	}
	return check{
		Product: idverify.ProductSubscriberCheck, CheckID: c.CheckID, Status: c.Status, PhoneNumber: c.PhoneNumber,
		Match: new(c.Match), NoSIMChange: new(c.NoSIMChange), CheckURL: c.CheckURL,
		ChargeAmount: c.ChargeAmount.String(), ChargeCurrency: c.ChargeCurrency,
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt, TTLSeconds: int64(c.TTL / time.Second),
		NetworkID: c.NetworkID, ErrorCode: c.ErrorCode, ReferenceID: c.ReferenceID, CallbackURL: c.CallbackURL,
	}
}

// verified reports whether every verdict that applies to the product is yes.
func (c check) verified() bool {
	for _, v := range []*idverify.Verdict{c.Match, c.NoSIMChange} {
		if v != nil && *v != idverify.VerdictYes {
			return false
		}
	}
	return c.Match != nil || c.NoSIMChange != nil
}

// result returns the result for people, or "" if the check has not ended.
func (c check) result() string {
	if !c.Status.Final() {
		return ""
	}
	text := ""
	if c.Match != nil {
		text = map[idverify.Verdict]string{idverify.VerdictYes: "match", idverify.VerdictNo: "no match"}[*c.Match]
	}
	if c.NoSIMChange != nil && *c.NoSIMChange != idverify.VerdictUnknown {
		if text != "" {
			text += ", "
		}
		text += map[idverify.Verdict]string{idverify.VerdictYes: "SIM unchanged", idverify.VerdictNo: "SIM changed"}[*c.NoSIMChange]
	}
	if text == "" {
		text = "unknown"
	}
	if c.ErrorCode != "" {
		text += " (" + c.ErrorCode + ")"
	}
	return text
}

// number returns the phone number, masked unless show is set.
func (c check) number(show bool) string {
	if show || c.PhoneNumber == "" {
		return c.PhoneNumber
	}
	return maskNumber(c.PhoneNumber)
}

// charge returns the charge with its currency.
func (c check) charge() string {
	if c.ChargeAmount == "" {
		return ""
	}
	return c.ChargeAmount + " " + c.ChargeCurrency
}

// rows returns the fields of the check for people.
func (c check) rows(showNumbers bool) []row {
	expires := ""
	if ttl := time.Duration(c.TTLSeconds) * time.Second; ttl > 0 && !c.Status.Final() {
		expires = shortTime(c.CreatedAt.Add(ttl)) + " UTC (TTL " + seconds(ttl) + ")"
	}
	created := ""
	if !c.CreatedAt.IsZero() {
		created = shortTime(c.CreatedAt) + " UTC"
	}
	return []row{
		{"Check ID", c.CheckID},
		{"Product", string(c.Product)},
		{"Status", string(c.Status)},
		{"Result", c.result()},
		{"Number", c.number(showNumbers)},
		{"Created", created},
		{"Expires", expires},
		{"Check URL", c.CheckURL},
		{"Charge", c.charge()},
		{"Network", c.NetworkID},
		{"Reference ID", c.ReferenceID},
		{"Callback URL", c.CallbackURL},
	}
}

// printCheck prints a check.
func (c *connection) printCheck(ck check) int {
	if c.json {
		ck.PhoneNumber = ck.number(c.showNumbers)
		return c.printJSON(ck)
	}
	c.printRows(ck.rows(c.showNumbers))
	return exitOK
}

// checkService contains the operations of one product.
type checkService struct {
	product idverify.Product
	title   string // for people
	scope   idverify.Scope
	device  bool // a device opens the Check URL, and the result is sent to a callback URL

	create   func(context.Context, createParams) (check, error)
	get      func(ctx context.Context, checkID string) (check, error)
	wait     func(ctx context.Context, checkID string) (check, error)
	complete func(ctx context.Context, checkID, code string) (check, error) // nil for SIMChecks
	all      func(context.Context, idverify.ListOptions) iter.Seq2[check, error]
	find     func(ctx context.Context, referenceID string) ([]check, error)
	traces   func(ctx context.Context, checkID string) ([]idverify.Trace, error)
}

// createParams are the parameters of a new check. A SIMCheck has no URLs.
type createParams struct{ number, referenceID, callbackURL, redirectURL string }

// newCheckService returns the operations of a product. An empty version selects the default.
func newCheckService(client *idverify.Client, product idverify.Product, version string) checkService {
	switch product {
	case idverify.ProductSIMCheck:
		return newSIMCheckService(client.WithVersions(idverify.Versions{SIMCheck: version}).SIMChecks)
	case idverify.ProductSubscriberCheck:
		return newSubscriberCheckService(client.WithVersions(idverify.Versions{SubscriberCheck: version}).SubscriberChecks)
	}
	return newPhoneCheckService(client.WithVersions(idverify.Versions{PhoneCheck: version}).PhoneChecks)
}

// products lists the products of -product.
func products() []idverify.Product {
	return []idverify.Product{idverify.ProductPhoneCheck, idverify.ProductSIMCheck, idverify.ProductSubscriberCheck}
}

func newPhoneCheckService(s *idverify.PhoneCheckService) checkService {
	return checkService{
		product: idverify.ProductPhoneCheck, title: "PhoneCheck", scope: idverify.ScopePhoneCheck, device: true,
		create: func(ctx context.Context, p createParams) (check, error) {
			c, err := s.Create(ctx, idverify.PhoneCheckParams{
				PhoneNumber: p.number, ReferenceID: p.referenceID, CallbackURL: p.callbackURL, RedirectURL: p.redirectURL,
			})
			return ofPhoneCheck(c), err
		},
		get:  one(s.Get, ofPhoneCheck),
		wait: one(s.Wait, ofPhoneCheck),
		complete: func(ctx context.Context, checkID, code string) (check, error) {
			c, err := s.Complete(ctx, checkID, code)
			return ofPhoneCheck(c), err
		},
		all:    each(s.All, ofPhoneCheck),
		find:   found(s.FindByReferenceID, ofPhoneCheck),
		traces: s.Traces,
	}
}

// newSIMCheckService returns the operations of SIMChecks, which end when they are created. Their
// wait only reads them.
func newSIMCheckService(s *idverify.SIMCheckService) checkService {
	return checkService{
		product: idverify.ProductSIMCheck, title: "SIMCheck", scope: idverify.ScopeSIMCheck,
		create: func(ctx context.Context, p createParams) (check, error) {
			c, err := s.Create(ctx, idverify.SIMCheckParams{PhoneNumber: p.number, ReferenceID: p.referenceID})
			return ofSIMCheck(c), err
		},
		get:    one(s.Get, ofSIMCheck),
		wait:   one(s.Get, ofSIMCheck),
		all:    each(s.All, ofSIMCheck),
		find:   found(s.FindByReferenceID, ofSIMCheck),
		traces: s.Traces,
	}
}

func newSubscriberCheckService(s *idverify.SubscriberCheckService) checkService {
	return checkService{
		product: idverify.ProductSubscriberCheck, title: "SubscriberCheck", scope: idverify.ScopeSubscriberCheck, device: true,
		create: func(ctx context.Context, p createParams) (check, error) {
			c, err := s.Create(ctx, idverify.SubscriberCheckParams{
				PhoneNumber: p.number, ReferenceID: p.referenceID, CallbackURL: p.callbackURL, RedirectURL: p.redirectURL,
			})
			return ofSubscriberCheck(c), err
		},
		get:  one(s.Get, ofSubscriberCheck),
		wait: one(s.Wait, ofSubscriberCheck),
		complete: func(ctx context.Context, checkID, code string) (check, error) {
			c, err := s.Complete(ctx, checkID, code)
			return ofSubscriberCheck(c), err
		},
		all:    each(s.All, ofSubscriberCheck),
		find:   found(s.FindByReferenceID, ofSubscriberCheck),
		traces: s.Traces,
	}
}

// one returns read with its result converted by of.
func one[T any](read func(context.Context, string) (*T, error), of func(*T) check) func(context.Context, string) (check, error) {
	return func(ctx context.Context, checkID string) (check, error) {
		c, err := read(ctx, checkID)
		return of(c), err
	}
}

// each returns all with its results converted by of.
func each[T any](all func(context.Context, idverify.ListOptions) iter.Seq2[*T, error], of func(*T) check) func(context.Context, idverify.ListOptions) iter.Seq2[check, error] {
	return func(ctx context.Context, o idverify.ListOptions) iter.Seq2[check, error] {
		return func(yield func(check, error) bool) {
			for c, err := range all(ctx, o) {
				if !yield(of(c), err) {
					return
				}
			}
		}
	}
}

// found returns find with its results converted by of.
func found[T any](find func(context.Context, string) ([]*T, error), of func(*T) check) func(context.Context, string) ([]check, error) {
	return func(ctx context.Context, referenceID string) ([]check, error) {
		checks, err := find(ctx, referenceID)
		all := make([]check, len(checks))
		for i, c := range checks {
			all[i] = of(c)
		}
		return all, err
	}
}
