package conformance

// What the specification leaves open and many expectations take for decided.
const (
	assumesSIMPath        = "the paths of SIMChecks"
	assumesSubscriberPath = "the paths of SubscriberChecks"
	assumesCoveragePath   = "the path of device reachability"
	assumesCheckURL       = "where a check tells its Check URL (_links.check_url.href), and the path of reading it"
	assumesExchange       = "version v0.2: redirect_url, and the exchange of the code"
	assumesConsole        = "the paths and bodies of projects and their credentials"
)

// Expectations returns the suite: every expectation in the order of its number. Setting up (tokens, a created check) is an expectation of its own, so that one fault is one failure and what rests on it is not run.
func Expectations() []Expectation {
	table := []Expectation{
		// Tokens and transport.
		{Section: "5.2", Text: "project credentials get a bearer token by Basic and a multipart form", check: (*run).issuesToken},
		{Section: "5.1", Text: "a wrong client secret gets no token", check: (*run).wrongSecret},
		{Section: "4", Text: "grant_type must be client_credentials", check: (*run).wrongGrantType},
		{Section: "4", Text: "scope is required", check: (*run).noScope},
		{Section: "5.2", Text: "one token may have several scopes, separated by a single space", Assumes: "the scope sim_check", check: (*run).severalScopes},
		{Section: "5.2", Text: "a token of phone_check alone reaches nothing else", Assumes: assumesSIMPath, check: (*run).enforcesScope},
		{Section: "5.2", Text: "the APIs take no call without a token, or with a wrong one", check: (*run).noToken},
		{Section: "2", Text: "project credentials cannot call product APIs directly", check: (*run).rejectsBasicAuth},
		{Section: "5.2", Text: "workspace credentials get no token for products", needs: workspace, check: (*run).limitsWorkspaceScopes},
		{Section: "1", Text: "calls over plain HTTP fail", check: (*run).plainHTTP},
		{Section: "4", Text: "the key set has RSA keys with kty, e, n, use, kid and alg", check: (*run).keySet},

		// PhoneChecks.
		{Section: "2", Text: "a created PhoneCheck has check_id, charge_amount, charge_currency and created_at", check: (*run).createsPhoneCheck},
		{Section: "1", Text: "a sandbox check consumes no balance", check: (*run).sandboxIsFree},
		{Section: "2", Text: "phone_number is digits without a plus sign", Assumes: "that other text is refused", check: (*run).badPhoneNumbers},
		{Section: "7", Text: "errors are problem documents: type with a fragment, title, status, detail", Assumes: "that a bad phone_number is an error", check: (*run).problems},
		{Section: "3", Text: "PhoneCheck of a number that ends in 0, 2, 4, 6 or 8: COMPLETED, match", Assumes: assumesCheckURL, check: outcomes(phoneCheck, object{"status": "COMPLETED", "match": true}, "02", "04", "06", "08", "10")},
		{Section: "3", Text: "PhoneCheck of a number that ends in 1, 3, 5, 7 or 9: COMPLETED, no match", Assumes: assumesCheckURL, check: outcomes(phoneCheck, object{"status": "COMPLETED", "match": false}, "01", "03", "05", "07", "09")},
		{Section: "3", Text: "PhoneCheck of a number that ends in 00, 55 or 99: ERROR, not kept", Assumes: assumesCheckURL, check: notStored(phoneCheck, "00", "55", "99")},
		{Section: "4", Text: "a completed PhoneCheck is listed", Assumes: "the path and body of lists", check: (*run).listsPhoneChecks},

		// SIMChecks.
		{Section: "3", Text: "SIMCheck of a number that ends in 0, 1, 2, 3 or 4: COMPLETED, no SIM change", Assumes: assumesSIMPath, check: simOutcomes(object{"status": "COMPLETED", "no_sim_change": true}, "00", "01", "02", "03", "04")},
		{Section: "3", Text: "SIMCheck of a number that ends in 5, 6, 7, 8 or 9: COMPLETED, a SIM change", Assumes: assumesSIMPath, check: simOutcomes(object{"status": "COMPLETED", "no_sim_change": false}, "55", "06", "07", "08", "09")},
		{Section: "3", Text: "SIMCheck of a number that ends in 99: ERROR, no_sim_change not applicable", Assumes: assumesSIMPath, check: simOutcomes(object{"status": "ERROR", "no_sim_change": absent}, "99")},

		// SubscriberChecks.
		{Section: "3", Text: "SubscriberCheck of a number that ends in 0, 2 or 4: match, no SIM change", Assumes: assumesSubscriberPath, check: outcomes(subscriberCheck, object{"status": "COMPLETED", "match": true, "no_sim_change": true}, "10", "02", "04")},
		{Section: "3", Text: "SubscriberCheck of a number that ends in 6 or 8: match, a SIM change", Assumes: assumesSubscriberPath, check: outcomes(subscriberCheck, object{"status": "COMPLETED", "match": true, "no_sim_change": false}, "06", "08")},
		{Section: "3", Text: "SubscriberCheck of a number that ends in 1, 3, 5, 7 or 9: no match, no_sim_change not applicable", Assumes: assumesSubscriberPath, check: outcomes(subscriberCheck, object{"status": "COMPLETED", "match": false, "no_sim_change": absent}, "01", "03", "05", "07", "09")},
		{Section: "3", Text: "SubscriberCheck of a number that ends in 00, 55 or 99: ERROR, not kept", Assumes: assumesSubscriberPath, check: notStored(subscriberCheck, "00", "55", "99")},

		// Device reachability.
		{Section: "3", Text: "reachability of an address that ends in an even digit: 200 with network, country and products", Assumes: assumesCoveragePath, check: (*run).reachable},
		{Section: "3", Text: "reachability of an address that ends in an odd digit: 412 not_mobile_ip", Assumes: assumesCoveragePath, check: unreachable("7", 412, "not_mobile_ip", "Not a mobile IP")},
		{Section: "3", Text: "reachability of an address that ends in 99: 400 mno_not_supported", Assumes: assumesCoveragePath, check: unreachable("99", 400, "mno_not_supported", "MNO not supported")},

		// Callbacks.
		{Section: "6", Text: "a callback comes by POST when a PhoneCheck is COMPLETED", Assumes: assumesCheckURL, needs: receiver, check: (*run).sendsCallback},
		{Section: "6", Text: "its payload has check_id, status, match, charge_amount, charge_currency and created_at", needs: receiver, check: (*run).callbackPayload},
		{Section: "5.3", Text: "it has Content-Type, Date, Digest, Content-Length and x-service-callback: phone_check", needs: receiver, check: (*run).callbackHeaders},
		{Section: "5.3", Text: "its signature, over the five lines, verifies with the key that keyId names", needs: receiver, check: (*run).callbackSignature},
		{Section: "5.3", Text: "its Digest is the SHA-256 of its body, in hexadecimal or base64", needs: receiver, check: (*run).callbackDigest},
		{Section: "6", Text: "a PhoneCheck in ERROR has a callback, without a match", needs: receiver, check: callbackOf(phoneCheck, "99", object{"status": "ERROR", "match": false})},
		{Section: "6", Text: "a SubscriberCheck has a callback when COMPLETED", Assumes: "its payload, which is not shown", needs: receiver, check: callbackOf(subscriberCheck, "06", object{"status": "COMPLETED", "match": true, "no_sim_change": false})},
		{Section: "6", Text: "a SubscriberCheck in ERROR has a callback, without a match", Assumes: "its payload, which is not shown", needs: receiver, check: callbackOf(subscriberCheck, "55", object{"status": "ERROR", "match": false, "no_sim_change": absent})},
		{Section: "6", Text: "a callback answered with 2XX is not tried again", needs: receiver | clock, check: attempts(204, 1, 1)},
		{Section: "6", Text: "a callback answered with 3XX is not tried again", needs: receiver | clock, check: attempts(302, 1, 1)},
		{Section: "6", Text: "a callback answered with 4XX is not tried again", needs: receiver | clock, check: attempts(400, 1, 1)},
		{Section: "6", Text: "a callback answered with 5XX is tried again, at most 6 times in all, each signed", Assumes: "that the tries are over in 10 minutes", needs: receiver | clock, check: attempts(503, 2, 6)},
		{Section: "3", Text: "a PhoneCheck whose Check URL nobody opens is EXPIRED, which only a callback tells", Assumes: "that a check expires after 120 seconds", needs: receiver | clock, check: (*run).expires},

		// Redirects.
		{Section: "5.3", Text: "the device comes back by GET with check_id, code, authorization and date", Assumes: assumesExchange, check: (*run).redirectsDevice},
		{Section: "5.3", Text: "the redirect's signature verifies with the key that keyId names", Assumes: assumesExchange, check: (*run).redirectSignature},
		{Section: "3", Text: "the exchange of the redirect's code ends the check by the same table, once", Assumes: assumesExchange, check: (*run).exchange},

		// Projects.
		{Section: "2", Text: "a created project has a client ID and secret, which get a token", Assumes: assumesConsole, needs: workspace, check: (*run).createsProject},
		{Section: "2", Text: "a project's secret is not shown again", Assumes: assumesConsole, needs: workspace, check: (*run).showsSecretOnce},
		{Section: "2", Text: "a project has at most 2 pairs of credentials", Assumes: assumesConsole, needs: workspace, check: (*run).limitsCredentials},
		{Section: "1", Text: "a project's mode can be updated to sandbox", Assumes: assumesConsole, needs: workspace, check: (*run).updatesMode},
		{Section: "6", Text: "a check's own callback_url overrides the project's", Assumes: assumesConsole, needs: workspace | receiver, check: (*run).callbackURLOverrides},
	}
	for i := range table {
		table[i].Number = i + 1
	}
	return table
}

// Numbers of expectations that others rest on; a test holds them against the table.
const (
	phoneCheckExpectation = 12
	callbackExpectation   = 30
	keySetExpectation     = 11
	redirectExpectation   = 43
	projectExpectation    = 46
)
