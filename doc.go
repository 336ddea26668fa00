// Package idverify is a client for a mobile-identity service. The service asks mobile networks
// whether a phone number belongs to a device and whether its SIM was changed recently.
//
// # Checks
//
//   - A PhoneCheck verifies that a phone number belongs to a device: [PhoneCheckService].
//   - A SIMCheck detects a recent SIM change. It involves no device: [SIMCheckService].
//   - A SubscriberCheck does both in one check: [SubscriberCheckService].
//   - Reachability reports which of these products the network of a device supports:
//     [ReachabilityService].
//
// A PhoneCheck or SubscriberCheck has three steps:
//
//  1. Your backend creates the check with [PhoneCheckService.Create] and stores its CheckID.
//  2. The device opens the Check URL over its mobile data connection. The connection identifies
//     the subscriber, so your app must open the URL; your server cannot.
//  3. The service sends the result to your callback URL, where [CallbackHandler] verifies it. A
//     program without a callback URL can poll with [PhoneCheckService.Wait].
//
// With version v0.2 of a product (see [WithVersions]), the service redirects the device to your
// redirect URL with a code. [RedirectHandler] verifies the redirect, and
// [PhoneCheckService.Complete] exchanges the code for the result.
//
// Match and NoSIMChange of a check are a [Verdict]: yes, no or unknown. A match proves that a
// device with the number opened the Check URL, not that the person who asked for the check did. To
// sign in people, use package checkflow, which binds a PhoneCheck to the session that started it.
//
// [PhoneCheckService.Get] returns [ErrNotFound] for a check that ended as EXPIRED or ERROR: see
// [CheckStatus].
//
// # Clients
//
// A [Client] calls the products with the credentials of a project. A [Console] manages projects,
// members and billing with the credentials of a workspace. Create one and reuse it; both are safe
// for concurrent use. They fetch access tokens on demand, cache them and renew them in the
// background before they expire.
//
// Failed requests are retried with jittered delays. A request that costs money or uses up a code is
// retried only if the service cannot have processed it: see [RetryPolicy]. Every method returns
// when its context is done.
//
// Nothing is logged without [WithLogger]. Errors and logs never contain tokens, secrets, phone
// numbers or addresses, except in the error that your callback function returns, which is logged
// unchanged.
//
// # Errors
//
// If the service rejects an operation, the error is an [*Error]. Use errors.Is to find the reason:
//
//	r, err := client.Reachability.Lookup(ctx, addr)
//	switch {
//	case errors.Is(err, idverify.ErrNotMobileIP), errors.Is(err, idverify.ErrNetworkNotSupported):
//		return sendTextMessage(ctx)
//	case err != nil:
//		return err
//	}
//
// The other types are [*TokenError] (no access token was issued), [*DecodeError] (a response cannot
// be used) and [*NoResultError] (a check ended without a result). Errors for invalid arguments
// match [ErrBadRequest] or [ErrPhoneFormat]. Any other error is one of these:
//   - [ErrSandbox], with [WithLiveOnly];
//   - a connection failure or a done context, with its cause;
//   - the error of a [CredentialsSource];
//   - the error of an iterator that found too many empty pages.
//
// # Other packages
//
//   - checkflow signs in people.
//   - inbox stores checks in a database and processes each result once.
//   - signature verifies callbacks and redirects, and signs messages for tests.
//   - sandboxfake runs a fake of the service in the process of your test.
//   - receivertest examines your handlers with valid and forged messages.
//   - redisstore is for backends of several processes, and otelidverify for OpenTelemetry.
//
// Packages inbox, redisstore and otelidverify are modules of their own.
//
// Protocol: docs/protocol.md.
package idverify
