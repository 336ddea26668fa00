// Package otelidverify creates OpenTelemetry spans and metrics for the client, the verifier and the
// inbox of idverify:
//
//	client, err := idverify.NewClient(baseURL, credentials, otelidverify.ClientOption())
//	…
//	verifier, err := signature.NewVerifier(keys, hosts, &signature.VerifierOptions{Observe: otelidverify.ObserveVerifier()})
//	…
//	otelidverify.RegisterJWKS(keys)
//	…
//	checks, err := inbox.New(ctx, db, inbox.Postgres, &inbox.Options{Observe: otelidverify.ObserveInbox[inbox.Event]()})
//	…
//	otelidverify.RegisterInbox(checks.Stats)
//
// By default, these use the global providers. To use others, pass [WithTracerProvider] and
// [WithMeterProvider].
//
// No span or metric contains a token, a secret, a phone number, an address or a URL. Attributes of
// metrics have few distinct values: they contain no text that a service or a sender chose, except
// the product of verified callbacks.
//
// # Spans
//
// Each attempt of an operation is a client span, named "idverify" and the operation, for example
// "idverify phone_check.create". Its parent is the span in the context of the call. The context of
// the HTTP request contains it, so spans of an instrumented http.RoundTripper are its children.
//
// A token request is a span "idverify token.create", a child of the attempt that started it. All
// attempts that wait for the token share it, and so do later ones. An attempt waits for the token,
// but not for the end of this span, which can therefore end after its parent.
//
// The status of a span is Error if the attempt failed, even if a retry follows. Its description is
// the text of the error, which can contain the explanation of the service. Attributes, if they
// apply:
//
//	idverify.operation         name of the operation, as in logs
//	idverify.request_id        X-Request-Id of the response, for support requests
//	idverify.retry             true if a retry follows, otherwise false
//	idverify.outcome_unknown   true if the error matches idverify.ErrOutcomeUnknown
//	http.request.resend_count  number of previous attempts, from the second attempt on
//	http.response.status_code  status of the response
//	error.type                 class of the error, see below
//
// [ObserveVerifier] creates no span. It adds attributes to the span of the HTTP server, if any:
//
//	idverify.operation         "callback" or "redirect"
//	idverify.product           product of a verified callback, for example "phone_check"
//	idverify.key_id            ID of the key of a verified message
//	idverify.reason            reason why the message was not verified, for example "ErrHost"
//	idverify.alert             true for a failure that a sender cannot have caused; missing otherwise
//
// Spans of an instrumented http.RoundTripper, such as that of otelhttp, can contain personal data:
// they record the URL, which contains the argument of ReachabilityService.Lookup, and IDs of
// checks.
//
// # Metrics
//
// Durations are histograms in seconds. Their counts are the numbers of attempts, retries and
// messages.
//
//	idverify.client.attempt.duration      attempts of operations, and token requests
//	idverify.client.retry.wait            delays before retries
//	idverify.client.rate_limit.limit      gauge: requests per period, from the last response that reports it
//	idverify.client.rate_limit.remaining  gauge: requests left, from the last response that reports it
//	idverify.verification.duration        callbacks and redirects that were verified or rejected
//	idverify.jwks.age                     gauge: seconds since the last successful fetch of the key set
//	idverify.inbox.operation.duration     callbacks, results and attempts to process them
//	idverify.inbox.lag                    time from storing a result to processing it
//	idverify.inbox.pending                gauge: results that wait for Work
//	idverify.inbox.oldest.age             gauge: age in seconds of the oldest result that waits for Work
//	idverify.inbox.stopped                gauge: results whose processing has stopped
//	idverify.inbox.in_progress            gauge: checks that have not ended
//	idverify.inbox.overdue                gauge: checks that Reconcile has to read
//
// Attempts have the attributes of their spans, except the number of previous attempts and the
// request ID. Retries have idverify.operation and error.type. Messages have idverify.operation,
// idverify.product, error.type and idverify.alert. Operations of the inbox have
// idverify.operation, idverify.outcome and idverify.product, the lag has only idverify.product; the
// values are those of inbox.Event. The gauges have no attributes.
//
// Among operations other than token.create, the count of attempts with idverify.retry false is the
// number of operations that ended, except those whose context ended during a delay. An operation
// without an access token counts as an attempt that failed with the error of the token request,
// which is counted as token.create.
//
// # Error types
//
// For an attempt, error.type is one of these. It is missing if the attempt was successful.
//
//	a problem code or token error code in docs/errors.md, such as "insufficient_balance"
//	the status of any other response without success, such as "503"
//	unusable_response   a 2xx response that cannot be used
//	certificate         the client does not accept the certificate of the service
//	timeout             no response within a timeout or a deadline
//	canceled            the context was canceled
//	no_response         any other error: there was no complete response
//
// For a verification it is the reason, such as "ErrHost", or _OTHER.
package otelidverify
