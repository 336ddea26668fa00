// Package idverify is a client of the identity-verification service, which asks mobile networks whether a phone number belongs to a device, and whether its SIM was changed lately.
//
// # Checks
//
//   - A PhoneCheck tells whether a number belongs to the device at hand: [PhoneCheckService].
//   - A SIMCheck tells whether the SIM of a number was changed: [SIMCheckService].
//   - A SubscriberCheck tells both: [SubscriberCheckService].
//   - Reachability tells beforehand which of them the device's network supports: [ReachabilityService].
//
// A PhoneCheck or SubscriberCheck takes three steps. Your backend creates it with [PhoneCheckService.Create]; the device opens its CheckURL over the mobile data connection, which is what proves anything, so your app must do that and not your server;
// the result comes to your callback URL, where [CallbackHandler] verifies it. [PhoneCheckService.Wait] is for programs without such a URL.
// With version v0.2 of a product, see [WithVersions], the device comes back with a code, to a URL that [RedirectHandler] serves, and [PhoneCheckService.Complete] exchanges it for the result.
//
// Decide by Status: Match and NoSIMChange are valid only when Status is COMPLETED. In ERROR, Match
// may be false, which is not a result: a network outage must not lock a customer out, nor let
// anyone in. The service does not keep a check that ends as EXPIRED or ERROR. Only its callback
// shows it.
//
// # Clients
//
// A [Client] has the credentials of a project and calls the products; a [Console] has those of a workspace and manages projects, members and billing. Make one and share it: both are safe for concurrent use, fetch access tokens when they are needed and replace them before they expire.
//
// Every method takes a context and ends with it. Requests that may be repeated are, with jittered waits; those that cost money are sent again only when they cannot have been accepted: see [RetryPolicy].
// Nothing is logged unless [WithLogger] asks for it. Neither errors nor logs hold tokens, secrets, phone numbers or addresses.
//
// # Errors
//
// A refusal by the service is an [*Error]; errors.Is tells what it means:
//
//	r, err := client.Reachability.Lookup(ctx, addr)
//	switch {
//	case errors.Is(err, idverify.ErrNotMobileIP), errors.Is(err, idverify.ErrNetworkNotSupported):
//		return sendTextMessage(ctx)
//	case err != nil:
//		return err
//	}
//
// A [*TokenError] means that no access token could be had, a [*DecodeError] that an answer is not the service's, a [*CheckEndedError] that a check ended without a result that can be read. Anything else is a connection that failed, or a context that ended, and wraps the cause.
//
// # Tests
//
// Package sandboxfake runs the whole service in your test's process. Package signature verifies what the service signs, and signs what your tests send.
package idverify
