package sandboxfake

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake/internal/rsql"
)

// accounts contains the workspaces, projects and credentials of the service.
type accounts struct {
	workspaces  map[string]*workspace
	inOrder     []*workspace // the same, in order of creation
	projects    map[string]*project
	credentials map[string]*credential // by client ID
}

// user is a person. A user is a member of one or more workspaces, and owns the first.
type user struct {
	name        string
	memberships []*member
}

// in returns the user's membership of w, or nil.
func (u *user) in(w *workspace) *member {
	for _, m := range u.memberships {
		if m.workspace == w {
			return m
		}
	}
	return nil
}

// workspace has members, projects and one balance.
type workspace struct {
	id, name       string
	seq            int // order of creation
	created        time.Time
	members        []*member
	invitations    []*invitation // open ones only
	projects       []*project
	currency       string
	balance        money
	paidIn         money // total of all top-ups
	billing        *billingAccount
	paymentMethods []*paymentMethod
	topUps         []*topUp
	usage          map[usageKey]*usage
	counter        counter
}

// Initial balance and currency of a workspace. Live projects can use them before the first top-up.
const (
	initialBalance  = 100 * moneyUnit
	initialCurrency = "API"
)

// member is a user in a workspace.
type member struct {
	id          string
	user        *user
	role        role
	workspace   *workspace
	created     time.Time
	credentials []*credential // the member's workspace credentials
	counter     counter
}

// project contains the credentials, settings and checks of an application.
type project struct {
	id string
	settings
	workspace        *workspace
	member           *member // its creator
	created, updated time.Time
	credentials      []*credential
	checks           map[string][]*check // the checks that lists return, by product, in order of creation
	checkSeq         uint64
	counter          counter
}

// settings contains the fields of a project that members can change.
type settings struct {
	name        string
	mode        mode
	callbackURL string                 // for products without their own
	products    map[string]productURLs // by product; the map is replaced, not modified
}

// mode is the mode of a project. Only checks of live projects are charged, and only they use
// [WithOutcomeFunc].
type mode string

const (
	modeLive    mode = "live"
	modeSandbox mode = "sandbox"
)

// productURLs is a project's configuration for one product.
type productURLs struct{ callbackURL, redirectURL string }

// credential is a client ID and the hash of its secret. The secret itself is not stored.
type credential struct {
	clientID   string
	secretHash [sha256.Size]byte
	workspace  *workspace
	member     *member  // its owner
	project    *project // nil for workspace credentials
	created    time.Time
	deleted    bool
	counter    counter
}

// bootstrap creates the accounts that every server starts with.
func (s *service) bootstrap() error {
	s.accounts = accounts{
		workspaces:  make(map[string]*workspace),
		projects:    make(map[string]*project),
		credentials: make(map[string]*credential),
	}
	owner, err := s.signUp("Owner", "Sandbox workspace", nil)
	if err != nil {
		return err
	}
	project := projectParams{Name: new("Sandbox project"), Mode: new(string(modeSandbox))}
	if s.opts.liveProject {
		project = projectParams{Name: new("Live project"), Mode: new(string(modeLive))}
	}
	p, err := s.provisionProject(owner.Credentials.ClientID, &project)
	if err != nil {
		return err
	}
	if fixed := s.opts.credentials; fixed.ClientID != "" {
		if fixed.ClientID == owner.Credentials.ClientID {
			return errors.New("project credentials: the client ID is that of the workspace")
		}
		c := s.accounts.credentials[p.Credentials.ClientID]
		delete(s.accounts.credentials, c.clientID)
		c.clientID, c.secretHash = fixed.ClientID, sha256.Sum256([]byte(fixed.ClientSecret.Reveal()))
		s.accounts.credentials[c.clientID] = c
		p.Credentials = fixed
	}
	s.initial.workspace, s.initial.workspaceID = owner.Credentials, owner.WorkspaceID
	s.initial.project, s.initial.projectID = p.Credentials, p.ProjectID
	return nil
}

// newUser creates a user and the workspace that they own.
func (s *service) newUser(name, workspaceName string) *user {
	w := &workspace{
		id:       s.ids.uuid("workspace "+workspaceName, "", &s.ids.root),
		name:     workspaceName,
		seq:      len(s.accounts.workspaces),
		created:  wireTime(s.clock.Now()),
		currency: initialCurrency,
		balance:  initialBalance,
		usage:    make(map[usageKey]*usage),
	}
	s.accounts.workspaces[w.id] = w
	s.accounts.inOrder = append(s.accounts.inOrder, w)
	u := &user{name: name}
	s.join(u, w, roleOwner)
	return u
}

// join makes u a member of w.
func (s *service) join(u *user, w *workspace, r role) *member {
	m := &member{id: s.ids.uuid("member "+u.name, w.id, &w.counter), user: u, role: r, workspace: w, created: wireTime(s.clock.Now())}
	w.members = append(w.members, m)
	u.memberships = append(u.memberships, m)
	return m
}

// newProject creates a project in m's workspace. Its ID is derived from its name, so that it does
// not depend on other projects.
func (s *service) newProject(m *member, chosen settings) *project {
	w := m.workspace
	now := wireTime(s.clock.Now())
	p := &project{
		id:        s.ids.uuid("project "+chosen.name, w.id, &w.counter),
		settings:  chosen,
		workspace: w,
		member:    m,
		created:   now,
		updated:   now,
		checks:    make(map[string][]*check),
	}
	w.projects = append(w.projects, p)
	s.accounts.projects[p.id] = p
	return p
}

// removeProject removes a project with its credentials, their tokens and its checks, and cancels
// the expiry of the checks. Queued callbacks are still delivered.
func (s *service) removeProject(p *project) {
	for _, c := range slices.Clone(p.credentials) {
		s.removeCredential(c)
	}
	for _, checks := range p.checks {
		for _, ck := range checks {
			s.clock.Cancel(ck.expiry)
			delete(s.checks, ck.id)
			if ck.expiry != nil {
				ck.expiry = nil
				s.note(ck, eventRemoved, s.clock.Now())
			}
		}
	}
	p.workspace.projects = without(p.workspace.projects, p)
	delete(s.accounts.projects, p.id)
}

// newCredential creates credentials of m for the project p, or for the workspace if p is nil. It
// also returns the secret. Only the hash of the secret is stored.
func (s *service) newCredential(m *member, p *project) (c *credential, secret string) {
	c = &credential{workspace: m.workspace, member: m, project: p, created: wireTime(s.clock.Now())}
	owner, counter := c.owner()
	c.clientID = s.ids.uuid("client_id", owner, counter)
	s.accounts.credentials[c.clientID] = c
	list := c.list()
	*list = append(*list, c)
	return c, s.newSecret(c)
}

// newSecret sets a new secret of c and returns it.
func (s *service) newSecret(c *credential) string {
	owner, counter := c.owner()
	secret := s.ids.secret("client_secret", owner, counter)
	c.secretHash = sha256.Sum256([]byte(secret))
	return secret
}

// removeCredential removes credentials. Their tokens become invalid.
func (s *service) removeCredential(c *credential) {
	c.deleted = true
	delete(s.accounts.credentials, c.clientID)
	list := c.list()
	*list = without(*list, c)
}

// owner returns the ID of the project or member that c belongs to, and its counter for new IDs.
func (c *credential) owner() (id string, of *counter) {
	if c.project != nil {
		return c.project.id, &c.project.counter
	}
	return c.member.id, &c.member.counter
}

// list returns the list that contains c.
func (c *credential) list() *[]*credential {
	if c.project != nil {
		return &c.project.credentials
	}
	return &c.member.credentials
}

// without returns list without item. It modifies list.
func without[T comparable](list []T, item T) []T {
	return slices.DeleteFunc(list, func(other T) bool { return other == item })
}

// authenticate returns the credential of a client ID, or nil if the ID is unknown or the secret is
// wrong.
func (a *accounts) authenticate(clientID, secret string) *credential {
	c := a.credentials[clientID]
	if c == nil {
		return nil
	}
	hash := sha256.Sum256([]byte(secret))
	if subtle.ConstantTimeCompare(hash[:], c.secretHash[:]) != 1 {
		return nil
	}
	return c
}

// Scopes that project and workspace credentials can request.
var (
	projectScopes   = []string{wire.ScopePhoneCheck, wire.ScopeSIMCheck, wire.ScopeSubscriberCheck, wire.ScopeCoverage}
	workspaceScopes = []string{wire.ScopeProjects, wire.ScopeWorkspaces, wire.ScopeConsole}
)

// scopes returns the scopes that c can request.
func (c *credential) scopes() []string {
	if c.project != nil {
		return projectScopes
	}
	return workspaceScopes
}

// mayHave reports whether c can request the scope.
func (c *credential) mayHave(scope string) bool { return slices.Contains(c.scopes(), scope) }

// money is an amount in millionths of a unit of its currency.
type money int64

const (
	moneyDigits = 6
	moneyUnit   = 1_000_000
)

// parseMoney parses a decimal number such as "0.05", without sign or exponent. It accepts at most
// twelve digits before the point and six after it.
func parseMoney(text string) (money, error) {
	whole, fraction, hasPoint := strings.Cut(text, ".")
	if whole == "" || len(whole) > 12 || hasPoint && fraction == "" || len(fraction) > moneyDigits {
		return 0, errMoney
	}
	digits := whole + fraction + strings.Repeat("0", moneyDigits-len(fraction))
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, errMoney
	}
	return money(n), nil
}

var errMoney = fmt.Errorf("amount must be a decimal number such as 12.50, with at most 12 digits before the point and %d after it", moneyDigits)

// String returns the amount without trailing zeros.
func (m money) String() string {
	if m%moneyUnit == 0 {
		return strconv.FormatInt(int64(m/moneyUnit), 10)
	}
	sign := ""
	if m < 0 {
		sign, m = "-", -m
	}
	fraction := strings.TrimRight(fmt.Sprintf("%0*d", moneyDigits, m%moneyUnit), "0")
	return fmt.Sprintf("%s%d.%s", sign, m/moneyUnit, fraction)
}

// moneyField returns a search field of amounts.
func moneyField[T any](value func(T) money) rsql.Field[T] {
	return func(searched rsql.Value) (func(T) (int, bool), error) {
		amount, err := parseMoney(searched.Text)
		return func(item T) (int, bool) { return cmp.Compare(value(item), amount), true }, err
	}
}

// number returns the amount as a JSON number.
func (m money) number() json.Number { return json.Number(m.String()) }

// maxURL is the maximum length of a callback or redirect URL, in bytes. It bounds the size of the
// delivery journal.
const maxURL = 2048

// validateURLs validates the callback URL and the redirect URL of a request. Either may be empty,
// which means that there is none.
func validateURLs(callbackURL, redirectURL string) error {
	if defect := urlDefect(callbackURL); callbackURL != "" && defect != "" {
		return newProblem(wire.BadRequest, "callback_url "+defect)
	}
	if defect := redirectDefect(redirectURL); redirectURL != "" && defect != "" {
		return newProblem(wire.BadRequest, "redirect_url "+defect)
	}
	return nil
}

const malformedURL = "is malformed: the host, the port or a percent escape is not valid"

// urlDefect returns why text is not a valid URL, without quoting it, or "" if it is valid: an
// absolute http or https URL of at most maxURL bytes without userinfo and fragment, in printable
// ASCII. The host has no percent escape: it would be an internationalized name, which browsers send
// as punycode, or have an IPv6 zone.
func urlDefect(text string) string {
	unprintable := func(r rune) bool { return r <= ' ' || r == 0x7f }
	nonASCII := func(r rune) bool { return r > 0x7f }
	u, err := url.Parse(text)
	switch {
	case len(text) > maxURL:
		return "must have at most 2048 bytes"
	case strings.ContainsFunc(text, unprintable):
		return "must not contain spaces or control characters (percent-encode them)"
	case strings.Contains(text, "#"):
		return "must not have a fragment"
	case err != nil:
		return malformedURL
	case u.Scheme == "":
		return "must be absolute: begin with https:// or http://"
	case u.Scheme != "http" && u.Scheme != "https":
		return "must have the scheme https or http"
	case u.User != nil:
		return "must not contain userinfo"
	case u.Hostname() == "":
		return "must be absolute: the host is missing"
	case strings.ContainsFunc(u.Host, nonASCII):
		return "must have a host in ASCII (write an internationalized name as punycode, xn--…)"
	case strings.Contains(u.Hostname(), "%"):
		return "must have a host without percent escapes and zones"
	case strings.ContainsFunc(text, nonASCII):
		return "must have a path and query in ASCII (percent-encode other characters)"
	}
	return ""
}

// redirectParams are the query parameters that the service adds to a redirect URL. The URL must not
// already contain them.
var redirectParams = []string{"check_id", "code", "error", "error_description", "authorization", "date"}

// queryDefect returns why the query of a redirect URL is invalid, or "" if it is valid.
func queryDefect(text string) string {
	_, rawQuery, _ := strings.Cut(text, "?")
	query, err := url.ParseQuery(rawQuery)
	switch {
	case err != nil:
		return "has a malformed query"
	case slices.ContainsFunc(redirectParams, query.Has):
		return "must not have a query parameter that the service adds: " + strings.Join(redirectParams, ", ")
	}
	return ""
}

// redirectDefect returns why text is not a valid redirect URL, or "" if it is valid. Unlike
// urlDefect, it accepts what browsers encode: spaces in the path and query, and a host that is not
// in ASCII.
func redirectDefect(text string) string {
	if strings.Contains(text, "#") {
		return "must not have a fragment"
	}
	u := browserURL(text)
	if u == nil || len(text) > maxURL {
		return cmp.Or(urlDefect(text), malformedURL)
	}
	return cmp.Or(urlDefect(u.String()), queryDefect(text))
}

// browserURL returns a redirect URL as a browser sends it, or nil if no browser would send it. Its
// path is in Opaque, which net/url does not encode again.
//
// A browser normalizes each URL before it sends a request, and the service signs what is sent.
// net/url does not implement the standard of browsers, WHATWG URL.
func browserURL(text string) *url.URL {
	scheme, rest, _ := strings.Cut(text, "://")
	scheme = strings.ToLower(scheme)
	if scheme != "http" && scheme != "https" || strings.TrimSpace(text) != text {
		return nil
	}
	end := strings.IndexAny(rest, `/\?#`)
	if end < 0 {
		end = len(rest)
	}
	host, ok := browserHost(scheme, rest[:end])
	if !ok {
		return nil
	}
	path, query, _ := strings.Cut(rest[end:], "?")
	return &url.URL{Scheme: scheme, Host: host, Opaque: "//" + host + browserPath(path), RawQuery: percentEncode(query, queryEncoded)}
}

// The printable ASCII characters that browsers encode in a query and a path. The standard does not
// encode | in a path, but Chromium does.
const (
	queryEncoded = ` "<>'`
	pathEncoded  = " \"<>^`{|}"
)

// percentEncode encodes the characters of text that set contains.
func percentEncode(text, set string) string {
	var b strings.Builder
	for i := range len(text) {
		if strings.IndexByte(set, text[i]) >= 0 {
			fmt.Fprintf(&b, "%%%02X", text[i])
		} else {
			b.WriteByte(text[i])
		}
	}
	return b.String()
}

// browserPath returns a path without dot segments, with slashes for backslashes.
func browserPath(path string) string {
	segments := strings.Split(strings.ReplaceAll(path, `\`, "/"), "/")[1:]
	var kept []string
	for i, segment := range segments {
		switch strings.ReplaceAll(strings.ToLower(segment), "%2e", ".") {
		case "..":
			kept = kept[:max(0, len(kept)-1)]
		case ".":
		default:
			kept = append(kept, percentEncode(segment, pathEncoded))
			continue
		}
		if i == len(segments)-1 {
			kept = append(kept, "")
		}
	}
	return "/" + strings.Join(kept, "/")
}

// browserHost returns the host and port of a URL without userinfo: the host in lower case and
// ASCII, an IP address in its usual form, and no default port. ok is false if they are not valid.
func browserHost(scheme, authority string) (host string, ok bool) {
	name, port := authority, ""
	if colon := strings.LastIndexByte(authority, ':'); colon > strings.LastIndexByte(authority, ']') {
		name, port = authority[:colon], authority[colon+1:]
	}
	if address, isIPv6 := strings.CutPrefix(name, "["); isIPv6 {
		name, ok = browserIPv6(address)
	} else if name, ok = browserName(name); ok {
		name, ok = browserIPv4(name)
	}
	if !ok || port == "" {
		return name, ok
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", false
	}
	if scheme == "http" && number == 80 || scheme == "https" && number == 443 {
		return name, true
	}
	return name + ":" + strconv.FormatUint(number, 10), true
}

// browserIDNA converts internationalized names as browsers do: UTS #46, nontransitional, without
// the rules for registration.
var browserIDNA = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.BidiRule(), idna.CheckJoiners(true), idna.CheckHyphens(false), idna.StrictDomainName(false), idna.VerifyDNSLength(false))

// browserName returns a DNS name in lower case, with punycode for other characters than ASCII.
func browserName(name string) (ascii string, ok bool) {
	ascii = strings.ToLower(name)
	if strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) || strings.Contains("."+ascii, ".xn--") {
		var err error
		// Browsers map a capital sharp s to a small one. The tables of package idna are older and map
		// it to ss.
		if ascii, err = browserIDNA.ToASCII(strings.ReplaceAll(name, "ẞ", "ß")); err != nil || !utf8.ValidString(name) {
			return "", false
		}
		// Package idna decodes the label xn-- to an empty one.
		if emptyLabels(ascii) > emptyLabels(name) {
			return "", false
		}
	}
	return ascii, ascii != "" && strings.Trim(ascii, "abcdefghijklmnopqrstuvwxyz0123456789.-_") == ""
}

// emptyLabels returns the number of empty labels of a DNS name.
func emptyLabels(name string) (n int) {
	for _, separator := range []string{"。", "．", "｡"} {
		name = strings.ReplaceAll(name, separator, ".")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" {
			n++
		}
	}
	return n
}

// browserIPv4 returns name with dots between four decimal numbers if its last part is a number, as
// in 127.1 and 0x7f.1. Such a name is always an address.
func browserIPv4(name string) (address string, ok bool) {
	parts := strings.Split(strings.TrimSuffix(name, "."), ".")
	last := len(parts) - 1
	if _, isNumber := ipv4Number(parts[last]); !isNumber && (parts[last] == "" || strings.Trim(parts[last], "0123456789") != "") {
		return name, true
	}
	if last > 3 {
		return "", false
	}
	var ip [4]byte
	for i, part := range parts {
		number, isNumber := ipv4Number(part)
		size := 1 // in bytes
		if i == last {
			size = 4 - last
		}
		if !isNumber || number >= 1<<(8*size) {
			return "", false
		}
		for k := range size {
			ip[i+k] = byte(number >> (8 * (size - 1 - k)))
		}
	}
	return netip.AddrFrom4(ip).String(), true
}

// ipv4Number parses a part of an IPv4 address: hexadecimal after 0x, octal after 0, or decimal.
func ipv4Number(part string) (number uint64, ok bool) {
	digits, base := part, 10
	if hex, found := strings.CutPrefix(part, "0x"); found {
		digits, base = "0"+hex, 16
	} else if len(part) > 1 && part[0] == '0' {
		base = 8
	}
	number, err := strconv.ParseUint(digits, base, 64)
	return number, err == nil || errors.Is(err, strconv.ErrRange) // too large for any part
}

// browserIPv6 returns an IPv6 address in its shortest form, in brackets. bracketed ends with a
// bracket.
func browserIPv6(bracketed string) (address string, ok bool) {
	text, ok := strings.CutSuffix(bracketed, "]")
	ip, err := netip.ParseAddr(text)
	if !ok || err != nil || !ip.Is6() || ip.Zone() != "" {
		return "", false
	}
	if ip.Is4In6() { // String would write it with dots
		b := ip.As16()
		return fmt.Sprintf("[::ffff:%x:%x]", binary.BigEndian.Uint16(b[12:]), binary.BigEndian.Uint16(b[14:])), true
	}
	return "[" + ip.String() + "]", true
}
