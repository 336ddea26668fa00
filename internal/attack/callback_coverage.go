package attack

import (
	"slices"
	"time"

	"github.com/idverify/idverify-go/signature"
)

// coverageAttacks returns callbacks with a valid signature that covers too little, or a covered
// part that is missing or repeated.
func coverageAttacks() []Attack {
	return slices.Concat(uncoveredAttacks(), missingAttacks(), repeatedAttacks(), coverageGrammarAttacks())
}

func uncoveredAttacks() []Attack {
	return slices.Concat(
		group(Attack{Severity: Medium, Reason: "A part that the signature does not cover can be changed, so the receiver must require all of them."},
			row{"request target not covered", covering("host date {kind} digest"), nil, signature.ErrCoverage},
			row{"host not covered", covering("(request-target) date {kind} digest"), nil, signature.ErrCoverage},
			row{"date not covered", covering("(request-target) host {kind} digest"), nil, signature.ErrCoverage},
			row{"digest not covered", covering("(request-target) host date {kind}"), nil, signature.ErrCoverage},
			row{"no digest, not covered", all(drop("Digest"), covering("(request-target) host date {kind}")), nil, signature.ErrCoverage},
			row{"signature of a redirect", covering("(request-target) host date"), nil, signature.ErrCoverage},
			row{"only date covered", covering("date"), nil, signature.ErrCoverage},
		),
		group(Attack{Severity: Medium, Strict: true, Reason: "The product of a callback selects how its body is read, so it must be signed."},
			row{"kind not covered", covering("(request-target) host date digest"), nil, signature.ErrCoverage},
		),
	)
}

func missingAttacks() []Attack {
	return slices.Concat(
		group(Attack{Severity: Critical, Reason: "Without the signed field, the signature does not belong to this message."},
			row{"no date", nil, drop("Date"), signature.ErrCoverage},
			row{"no digest", nil, drop("Digest"), signature.ErrCoverage},
			row{"no kind", nil, drop("{kind}"), signature.ErrCoverage},
		),
		group(Attack{Severity: Medium, Strict: true, Reason: "A signature cannot cover a field that the message does not have."},
			row{"missing covered header", covering("{covered} x-absent"), nil, signature.ErrCoverage},
		),
	)
}

func repeatedAttacks() []Attack {
	return slices.Concat(
		group(Attack{Severity: High, Reason: "The signature must be verified with the date that is compared with the clock, or recorded callbacks stay valid."},
			row{"old date and a second date", dated(-time.Hour), addDate("Date", 0), signature.ErrCoverage},
			row{"old date after a second date", dated(-time.Hour), all(addDate("Date", 0), first), signature.ErrCoverage},
		),
		group(Attack{Severity: Critical, Reason: "The signature must be verified with the digest that is compared with the body, or anyone can change a result."},
			row{"changed body and a second digest", nil, secondDigest, signature.ErrCoverage},
			row{"changed body and a second digest before the signed one", nil, all(secondDigest, first), signature.ErrCoverage},
		),
		group(Attack{Severity: Medium, Strict: true, Reason: "If a signed field is repeated, different programs use different values of it."},
			row{"two dates, signed one first", nil, addDate("Date", time.Second), signature.ErrCoverage},
			row{"two digests", nil, add("Digest", Digest("other")), signature.ErrCoverage},
			row{"two kinds", nil, add("{kind}", "other_check"), signature.ErrCoverage},
		),
	)
}

// secondDigest changes the body and appends its digest.
func secondDigest(m *Message, s Setup) {
	m.SetBody(changedResult(m.Body))
	m.Add("Digest", s.digest(m.Body))
}

func coverageGrammarAttacks() []Attack {
	return group(Attack{Severity: Medium, Strict: true, Reason: "Programs read an unusual list of signed fields differently."},
		row{"date covered twice", covering("{covered} date"), nil, signature.ErrCoverage},
		row{"(created)", covering("{covered} (created)"), nil, signature.ErrCoverage},
		row{"(expires)", covering("{covered} (expires)"), nil, signature.ErrCoverage},
		row{"upper-case covered name", covering("(request-target) host Date {kind} digest"), nil, signature.ErrMalformed},
		row{"two spaces between covered names", nil, auth("host date", "host  date"), signature.ErrMalformed},
		row{"17 covered names", covering("{covered} a b c d e f g h i j k l"), nil, signature.ErrMalformed},
		row{"unterminated parenthesis", nil, auth("(request-target)", "(request-target"), signature.ErrMalformed},
		row{"no covered names", nil, auth("{covered}", ""), signature.ErrMalformed},
		row{"covered names reordered", nil, auth("host date", "date host"), signature.ErrSignature},
	)
}
