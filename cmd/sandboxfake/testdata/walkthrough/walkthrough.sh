#!/bin/sh
# A complete PhoneCheck with curl: get a token, create a check, open its Check URL, verify the callback, exchange a code, and see failures.
#
#   go run ./cmd/sandboxfake -addr 127.0.0.1:8443 -seed 1 -ca-file ca.pem
#   URL=https://127.0.0.1:8443 CA=ca.pem ID=<client ID> SECRET=<client secret> CONTROL=<control token> sh walkthrough.sh
#
# It requires curl, sed and openssl. It verifies a callback that the control plane shows; walkthrough.js and walkthrough.py also receive one.
set -eu

: "${URL:?the URL that sandboxfake printed}" "${CA:?the path of its CA file}" "${ID:?the client ID of its project}" "${SECRET:?the client secret}" "${CONTROL:?the control token}"

call() { curl -sS --fail-with-body --cacert "$CA" "$@"; }
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }                # a field of a JSON object, by its name
href() { sed -n "s/.*\"$1\":{\"href\":\"\([^\"]*\)\".*/\1/p"; }              # a link
WORK=$(mktemp -d) && trap 'rm -rf "$WORK"' EXIT
expect() { [ "$2" = "$3" ] || { echo "$1: got '$2', want '$3'" >&2; exit 1; }; echo "$1: $2"; }

# A token for one product. It is valid for an hour and should be reused.
TOKEN=$(call -u "$ID:$SECRET" -F grant_type=client_credentials -F scope=phone_check "$URL/oauth2/v1/token" | field access_token)
api() { call -H "Authorization: Bearer $TOKEN" "$@"; }
control() { call -H "Authorization: Bearer $CONTROL" -H 'Content-Type: application/json' "$@"; }

# A check. In the sandbox the last digits determine the result: 12 matches. The callback goes to port 9, where nothing listens; see below.
CHECK=$(api -H 'Content-Type: application/json' -d '{"phone_number":"447700900012","callback_url":"http://127.0.0.1:9/callbacks"}' "$URL/phone_check/v0.1/checks")
CHECK_ID=$(echo "$CHECK" | field check_id)
expect 'created' "$(echo "$CHECK" | field status)" ACCEPTED

# The device opens the Check URL over its mobile data connection, without a token.
call -o /dev/null "$(echo "$CHECK" | href check_url)"

# Read the result, which also arrives by callback. match is a result only if status is COMPLETED. The control plane shows the delivery: connection refused, which is not retried.
CHECK=$(api "$URL/phone_check/v0.1/checks/$CHECK_ID")
expect 'status' "$(echo "$CHECK" | field status)" COMPLETED
expect 'match' "$(echo "$CHECK" | field match)" true
DELIVERIES=$(control "$URL/_sandbox/deliveries?check_id=$CHECK_ID&wait_seconds=10")
expect 'callback' "$(echo "$DELIVERIES" | field result)" unreachable

# Prints the public key with ID $1 in PEM. The key set contains its modulus and exponent in base64url.
pem() {
  KEY=$(call "$URL/.well-known/jwks.json" | tr '{' '\n' | grep -F "\"kid\":\"$1\"") || return 1
  number() { V=$(echo "$KEY" | field "$1" | tr '_-' '/+'); while [ $((${#V} % 4)) != 0 ]; do V=$V=; done; echo "$V" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \n'; }
  printf 'asn1=SEQUENCE:key\n[key]\nalgorithm=SEQUENCE:rsa\npublic=BITWRAP,SEQUENCE:numbers\n[rsa]\nid=OID:rsaEncryption\nnone=NULL\n[numbers]\nn=INTEGER:0x%s\ne=INTEGER:0x%s\n' "$(number n)" "$(number e)" > "$WORK/asn1"
  openssl asn1parse -noout -genconf "$WORK/asn1" -out "$WORK/der" && openssl pkey -pubin -inform DER -in "$WORK/der"
}

# Prints "verified", or why a receiver rejects the callback in $1. $2 and $3 are the host and the path of your callback URL.
verify() {
  header() { printf '%s\n' "$DELIVERY" | sed -n "s/.*\"$1\":\[\"\([^]]*\)\"\].*/\1/p" | sed 's/\\"/"/g'; }
  parameter() { header Authorization | sed -n "s/.*[ ,]$1=\"\([^\"]*\)\".*/\1/p"; }
  DELIVERY=$1
  [ "$(parameter algorithm)" = rsa-sha256 ] && [ "$(parameter headers)" = '(request-target) host date x-service-callback digest' ] || { echo 'the signature does not cover everything'; return; }
  printf '%s\n' "$DELIVERY" | sed -n 's/.*"body":"\(.*\)","attempts".*/\1/p' | sed 's/\\"/"/g' | tr -d '\n' > "$WORK/body"
  HEX=$(openssl dgst -sha256 -r "$WORK/body" | cut -c 1-64) BASE64=$(openssl dgst -sha256 -binary "$WORK/body" | openssl base64 -A)
  case $(header Digest) in "SHA-256=$HEX" | "SHA-256=$BASE64") ;; *) echo 'the digest does not match the body' && return ;; esac
  pem "$(parameter keyId)" > "$WORK/pem" || { echo 'the key ID is not in the key set'; return; }
  parameter signature | openssl base64 -d -A > "$WORK/signature"
  printf '(request-target): post %s\nhost: %s\ndate: %s\nx-service-callback: %s\ndigest: %s' "$3" "$2" "$(header Date)" "$(header X-Service-Callback)" "$(header Digest)" > "$WORK/signed"
  openssl dgst -sha256 -verify "$WORK/pem" -signature "$WORK/signature" "$WORK/signed" > "$WORK/result" 2>&1 && echo verified || echo 'the signature does not verify'
}

# The callback is signed, also if nothing listens. A receiver also compares Date with its clock and rejects a signature that it has seen.
expect 'the signature of the callback' "$(verify "$DELIVERIES" 127.0.0.1:9 /callbacks)" verified
expect 'for another host' "$(verify "$DELIVERIES" shop.example.com /callbacks)" 'the signature does not verify'
expect 'with another body' "$(verify "$(printf '%s' "$DELIVERIES" | sed 's/\\"match\\":true/\\"match\\":false/')" 127.0.0.1:9 /callbacks)" 'the digest does not match the body'
expect 'with fewer signed headers' "$(verify "$(printf '%s' "$DELIVERIES" | sed 's/ digest\\"/\\"/')" 127.0.0.1:9 /callbacks)" 'the signature does not cover everything'
expect 'with an unknown key' "$(verify "$(printf '%s' "$DELIVERIES" | sed 's/keyId=\\"/&x/')" 127.0.0.1:9 /callbacks)" 'the key ID is not in the key set'

# A forged callback: the fake signs it with a key that it does not publish.
control -o /dev/null -d '{"match": {"operation": "callback"}, "faults": [{"wrong_key": true}]}' "$URL/_sandbox/faults"
CHECK=$(api -H 'Content-Type: application/json' -d '{"phone_number":"447700900012","callback_url":"http://127.0.0.1:9/callbacks"}' "$URL/phone_check/v0.1/checks")
call -o /dev/null "$(echo "$CHECK" | href check_url)"
FORGED=$(control "$URL/_sandbox/deliveries?check_id=$(echo "$CHECK" | field check_id)&wait_seconds=10")
expect 'a forged callback' "$(verify "$FORGED" 127.0.0.1:9 /callbacks)" 'the signature does not verify'

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
