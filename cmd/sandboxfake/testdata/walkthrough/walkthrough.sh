#!/bin/sh
# A complete PhoneCheck with curl: get a token, create a check, open its Check URL, follow the callback, exchange a code, and see failures.
#
#   go run ./cmd/sandboxfake -addr 127.0.0.1:8443 -seed 1 -ca-file ca.pem
#   URL=https://127.0.0.1:8443 CA=ca.pem ID=<client id> SECRET=<client secret> CONTROL=<control token> sh walkthrough.sh
#
# It requires curl and sed. It does not verify signatures; walkthrough.js does.
set -eu

: "${URL:?the URL that sandboxfake printed}" "${CA:?the path of its CA file}" "${ID:?the client ID of its project}" "${SECRET:?the client secret}" "${CONTROL:?the control token}"

call() { curl -sS --fail-with-body --cacert "$CA" "$@"; }
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }                # a field of a JSON object, by its name
href() { sed -n "s/.*\"$1\":{\"href\":\"\([^\"]*\)\".*/\1/p"; }              # a link
expect() { [ "$2" = "$3" ] || { echo "$1: got '$2', want '$3'" >&2; exit 1; }; echo "$1: $2"; }

# A token for one product. It is valid for an hour and should be reused.
TOKEN=$(call -u "$ID:$SECRET" -F grant_type=client_credentials -F scope=phone_check "$URL/oauth2/v1/token" | field access_token)
api() { call -H "Authorization: Bearer $TOKEN" "$@"; }
control() { call -H "Authorization: Bearer $CONTROL" -H 'Content-Type: application/json' "$@"; }

# A check. In the sandbox the last digits decide the result: 12 matches. The callback goes to port 9, where nothing listens; see below.
CHECK=$(api -H 'Content-Type: application/json' -d '{"phone_number":"447700900012","callback_url":"http://127.0.0.1:9/callbacks"}' "$URL/phone_check/v0.1/checks")
CHECK_ID=$(echo "$CHECK" | field check_id)
expect 'created' "$(echo "$CHECK" | field status)" ACCEPTED

# The device opens the Check URL over its mobile data connection, without a token.
call -o /dev/null "$(echo "$CHECK" | href check_url)"

# Read the result, which also arrives by callback. Match is valid only when Status is COMPLETED. The control plane shows the delivery: connection refused, which is not retried.
CHECK=$(api "$URL/phone_check/v0.1/checks/$CHECK_ID")
expect 'status' "$(echo "$CHECK" | field status)" COMPLETED
expect 'match' "$(echo "$CHECK" | field match)" true
DELIVERIES=$(control "$URL/_sandbox/deliveries?check_id=$CHECK_ID&wait_seconds=10")
expect 'callback' "$(echo "$DELIVERIES" | field result)" unreachable

# Version v0.2: the device returns to the redirect URL with a code. Exchanging the code completes the check.
CHECK=$(api -H 'Content-Type: application/json' -d '{"phone_number":"447700900013","redirect_url":"https://app.example.com/back"}' "$URL/phone_check/v0.2/checks")
CHECK_ID=$(echo "$CHECK" | field check_id)
BACK=$(call -o /dev/null -w '%{redirect_url}' "$(echo "$CHECK" | href check_url)")
CODE=$(echo "$BACK" | sed -n 's/.*[?&]code=\([^&]*\).*/\1/p')
CHECK=$(api -X PATCH -H 'Content-Type: application/json-patch+json' -d "[{\"op\":\"add\",\"path\":\"/code\",\"value\":\"$CODE\"}]" "$URL/phone_check/v0.2/checks/$CHECK_ID")
expect 'match after the exchange' "$(echo "$CHECK" | field match)" false

# An unopened check expires after 120 seconds; advance the clock instead of waiting. An expired check cannot be read: only a callback reports it.
CHECK_ID=$(api -H 'Content-Type: application/json' -d '{"phone_number":"447700900012"}' "$URL/phone_check/v0.1/checks" | field check_id)
control -o /dev/null -d '{"seconds": 121}' "$URL/_sandbox/advance"
STATUS=$(curl -sS --cacert "$CA" -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $TOKEN" "$URL/phone_check/v0.1/checks/$CHECK_ID")
expect 'an expired check' "$STATUS" 404

# Make the next request fail.
control -o /dev/null -d '{"match": {"operation": "phone_check.list"}, "faults": [{"status": 429, "retry_after_seconds": 3}]}' "$URL/_sandbox/faults"
STATUS=$(curl -sS --cacert "$CA" -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $TOKEN" "$URL/phone_check/v0.1/checks")
expect 'a request with a fault' "$STATUS" 429

echo 'all as expected'
