package attack

import (
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go/signature"
)

// otherHost is the host of another customer of the service, or of an attacker who became one.
const otherHost = "other.example.net"

const hostReason = "The service signs for all customers with the same keys, so another customer could send you a result of their own."

// hostAttacks returns callbacks that the service signed for another host.
func hostAttacks() []Attack {
	return slices.Concat(
		group(Attack{Severity: High, Reason: hostReason},
			row{"signed for another customer", toHost(otherHost), nil, signature.ErrHost},
			row{"signed for another customer, host changed", toHost(otherHost), toHost("{host}"), signature.ErrSignature},
			row{"our host as prefix", editHost(func(name, port string) string { return name + ".example.net" + port }), nil, signature.ErrHost},
			row{"our host as suffix", editHost(func(name, port string) string { return "evil" + name + port }), nil, signature.ErrHost},
			row{"our host only in X-Forwarded-Host", all(toHost(otherHost), add("X-Forwarded-Host", "{host}")), nil, signature.ErrHost},
			row{"our host only in Forwarded", all(toHost(otherHost), add("Forwarded", `host="{host}"`)), nil, signature.ErrHost},
		),
		forwardedHostAttacks(),
		group(Attack{Severity: Medium, Strict: true, Reason: "The host must be equal to that of the callback URL."},
			row{"subdomain of our host", toHost("x.{host}"), nil, signature.ErrHost},
			row{"our host with trailing dot", editHost(func(name, port string) string { return name + "." + port }), nil, signature.ErrHost},
		),
		group(Attack{Severity: Medium, Strict: true, Configurable: true, Reason: "Another service of yours on another port of the host gets its own callbacks."},
			row{"our host on another port", editHost(otherPort), nil, signature.ErrHost},
		),
	)
}

// editHost changes the name of the host, in which an IPv6 address has brackets. The port is empty
// or begins with a colon.
func editHost(change func(name, port string) string) edit {
	return func(m *Message, _ Setup) {
		name, port := m.Host, ""
		if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, ']') {
			name, port = name[:i], name[i:]
		}
		m.Host = change(name, port)
	}
}

func otherPort(name, port string) string {
	if port == ":8443" {
		return name + ":9443"
	}
	return name + ":8443"
}

// dateAttacks returns callbacks whose date is not the time at which they are sent.
func dateAttacks() []Attack {
	return slices.Concat(
		skewAttacks("A recorded callback must not be valid later, and the service specifies five seconds."),
		group(Attack{Severity: High, Reason: "Only the signed date shows when the service sent the callback, so another one makes recorded callbacks valid again."},
			row{"old date changed to now", dated(-time.Hour), dated(0), signature.ErrSignature},
			row{"old date with new X-Date", all(dated(-time.Hour), addDate("X-Date", 0)), nil, signature.ErrSkew},
		),
		group(Attack{Severity: Medium, Strict: true, Reason: "The service writes dates in one format, and other ones can be read as another time."},
			row{"date of year 1", set("Date", "Mon, 01 Jan 0001 00:00:00 GMT"), nil, signature.ErrSkew},
			row{"empty date", set("Date", ""), nil, signature.ErrMalformed},
			row{"RFC 850 date", datedAs("Monday, 02-Jan-06 15:04:05 GMT"), nil, signature.ErrMalformed},
			row{"asctime date", datedAs(time.ANSIC), nil, signature.ErrMalformed},
			row{"RFC 3339 date", datedAs(time.RFC3339), nil, signature.ErrMalformed},
			row{"date with zone UTC", datedAs(time.RFC1123), nil, signature.ErrMalformed},
			row{"date with numeric zone", datedAs(time.RFC1123Z), nil, signature.ErrMalformed},
			row{"date with wrong weekday", wrongWeekday, nil, signature.ErrMalformed},
			row{"date with fraction", datedAs("Mon, 02 Jan 2006 15:04:05.5 GMT"), nil, signature.ErrMalformed},
			row{"lower-case date", func(m *Message, _ Setup) { m.Set("Date", strings.ToLower(m.Get("Date"))) }, nil, signature.ErrMalformed},
		),
	)
}

// skewAttacks returns correctly signed messages whose date differs from the clock.
func skewAttacks(reason string) []Attack {
	near := func(d time.Duration) Attack {
		return Attack{Severity: Medium, Strict: true, Configurable: true, Reason: reason, Skew: d}
	}
	far := func(d time.Duration) Attack { return Attack{Severity: Medium, Reason: reason, Skew: d} }
	return slices.Concat(
		group(near(6*time.Second),
			row{"date 6 s old", dated(-6 * time.Second), nil, signature.ErrSkew},
			row{"date 6 s ahead", dated(6 * time.Second), nil, signature.ErrSkew},
		),
		group(far(time.Minute),
			row{"date 60 s old", dated(-time.Minute), nil, signature.ErrSkew},
			row{"date 60 s ahead", dated(time.Minute), nil, signature.ErrSkew},
		),
		group(far(5000*time.Second),
			row{"date 5000 s old", dated(-5000 * time.Second), nil, signature.ErrSkew},
			row{"date 5000 s ahead", dated(5000 * time.Second), nil, signature.ErrSkew},
		),
	)
}

func wrongWeekday(m *Message, s Setup) {
	_, rest, _ := strings.Cut(m.Get("Date"), ",")
	m.Set("Date", s.Now.UTC().AddDate(0, 0, 1).Format("Mon")+","+rest)
}
