package attack

import (
	"slices"
	"strings"

	"github.com/idverify/idverify-go/signature"
)

// requestAttacks returns the attacks on method and target of a callback.
func requestAttacks() []Attack {
	return slices.Concat(
		group(Attack{Severity: High, Reason: "The query is signed, so that nobody can have a result delivered with other parameters."},
			row{"different query", withQuery, appendToTarget("8"), signature.ErrSignature},
			row{"removed query", withQuery, func(m *Message, _ Setup) { m.Target, _, _ = strings.Cut(m.Target, "?") }, signature.ErrSignature},
		),
		forwardedTargetAttacks(withQuery, appendToTarget("8")),
		group(Attack{Severity: Medium, Strict: true, Reason: "Parameters that the service did not sign must not reach the code behind the verifier."},
			row{"appended parameter", withQuery, appendToTarget("&admin=1"), signature.ErrSignature},
		),
		group(Attack{Severity: Medium, Strict: true, Reason: "The service sends callbacks only with POST."},
			row{"PUT", method("PUT"), nil, signature.ErrMalformed},
			row{"POST changed to GET", nil, method("GET"), signature.ErrMalformed},
		),
		group(Attack{Severity: Medium, Strict: true, Reason: "The path is signed, and another spelling of it can lead to other code."},
			row{"different path", nil, editPath(otherPath), signature.ErrSignature},
			row{"escaped path", editPath(withSlash), editPath(escapedSlash), signature.ErrSignature},
			row{"escaped letter in path", editPath(withSlash), editPath(escapedLetter), signature.ErrSignature},
			row{"double slash", nil, editPath(func(path string) string { return "/" + path }), signature.ErrSignature},
			row{"absolute target for another host", nil, toTarget("https://other.example.com{target}"), signature.ErrHost},
			row{"target with user", nil, toTarget("https://u@{host}{target}"), signature.ErrHost},
			row{"target above 64 KiB", toTarget("/" + strings.Repeat("a", 64<<10)), nil, signature.ErrMalformed},
			row{"ftp target", toTarget("ftp://{host}{target}"), nil, signature.ErrMalformed},
		),
	)
}

// bodyAttacks returns the attacks on the body of a callback.
func bodyAttacks() []Attack {
	return slices.Concat(
		group(Attack{Severity: Critical, Reason: "Without a check of the digest, anyone who sees one callback can send it with any result."},
			row{"changed match", nil, editBody(changedResult), signature.ErrDigest},
			row{"empty body", nil, editBody(func(string) string { return "" }), signature.ErrDigest},
			row{"body and digest changed", nil, all(editBody(changedResult), digested), signature.ErrSignature},
		),
		group(Attack{Severity: Medium, Strict: true, Reason: "The digest is of the bytes that were received, not of the decoded body."},
			row{"one byte appended to body", nil, editBody(func(body string) string { return body + " " }), signature.ErrDigest},
		),
		group(Attack{Severity: Low, Strict: true, Configurable: true, Reason: "Callbacks are far below 1 MiB, and a larger body only costs memory."},
			row{"body above MaxBody", all(editBody(padded(1<<20+1)), digested), nil, signature.ErrTooLarge},
		),
		group(Attack{Severity: Low, Reason: "Without a limit on the body, anyone can use up the memory of the receiver."},
			row{"body of 10 MiB", all(editBody(padded(10<<20)), digested), nil, signature.ErrTooLarge},
		),
	)
}

// otherPath returns a path below path.
func otherPath(path string) string { return strings.TrimSuffix(path, "/") + "/other" }

// withSlash returns path, or a path below it, whose last slash is between two segments. Attacks
// escape the slash, or the letter after it.
func withSlash(path string) string {
	if path == "/" {
		path = "/other"
	}
	if strings.LastIndex(path, "/") == 0 || strings.HasSuffix(path, "/") {
		return otherPath(path)
	}
	return path
}

func escapedSlash(path string) string {
	i := strings.LastIndex(path, "/")
	return path[:i] + "%2F" + path[i+1:]
}

// escapedLetter escapes the first letter after the last slash.
func escapedLetter(path string) string {
	i := strings.LastIndex(path, "/") + 1
	const digits = "0123456789ABCDEF"
	return path[:i] + "%" + string(digits[path[i]>>4]) + string(digits[path[i]&0xf]) + path[i+1:]
}
