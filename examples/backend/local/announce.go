package main

import (
	"fmt"
	"strings"

	"github.com/idverify/idverify-go/examples/backend/internal/stack"
)

// announcement returns what runs where, and commands for a POSIX shell.
func announcement(s *stack.Stack) string {
	var replicas strings.Builder
	for _, r := range s.Replicas {
		fmt.Fprintf(&replicas, "  %-14s http://%s (log %s/%s.log)\n", r.Name, r.Addr, s.Dir, r.Name)
	}
	values := strings.NewReplacer(
		"{url}", s.URL,
		"{ca}", s.CAFile(),
		"{service}", s.Service.URL(),
		"{control}", s.Service.ControlToken(),
		"{dir}", s.Dir,
		"{postgres}", s.Postgres.URL(),
		"{replicas}", replicas.String(),
	)
	return values.Replace(text)
}

// text is the announcement. Its commands run one after the other in one shell.
const text = `
The shop runs at {url}

  nginx          {url} (log {dir}/nginx/access.log)
{replicas}  PostgreSQL     psql '{postgres}'
  service        {service}/_sandbox/ (control token {control})
  certificates   {ca}

Run these commands in another terminal. The last digits of the number determine the result. A sign-up is verified if the last digit is 0, 2 or 4. It is rejected if that is 6 or 8, because the SIM is new, or odd, because the phone does not have the number. A number that ends in 00, 55 or 99 fails.

call() { curl -sS --cacert {ca} "$@"; echo; }
field() { sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/"; }

Sign up, open the Check URL as the phone does, and read the status. It is "pending" until the callback of the service has been processed, in a fraction of a second:

SIGNUP=$(call -d '{"phone_number":"447700900012"}' {url}/signups); echo "$SIGNUP"
ID=$(echo "$SIGNUP" | field id)
call "$(echo "$SIGNUP" | field check_url)"
call {url}/signups/$ID

Sign in on the web. The phone opens the Check URL in the same browser, and the service redirects it to the shop:

SIGNIN=$(call -c {dir}/cookies -d '{"phone_number":"447700900012"}' {url}/signins); echo "$SIGNIN"
call -L -b {dir}/cookies -c {dir}/cookies "$(echo "$SIGNIN" | field check_url)"
call -b {dir}/cookies {url}/session

Sign in in an app, which sends the code to the shop:

CHECK=$(call -d '{"phone_number":"447700900012"}' {url}/app/signins); echo "$CHECK"
CODE=$(call "$(echo "$CHECK" | field check_url)" | field code)
call -d "{\"token\":\"$(echo "$CHECK" | field token)\",\"check_id\":\"$(echo "$CHECK" | field check_id)\",\"code\":\"$CODE\"}" {url}/app/sessions

Pay out after a SIM check of the number of the sign-up, with the session of the web. A repeated request returns the same decision:

call -b {dir}/cookies -d "{\"id\":\"payout-1\",\"signup_id\":\"$ID\",\"amount\":50}" {url}/payouts
call -b {dir}/cookies -d "{\"id\":\"payout-1\",\"signup_id\":\"$ID\",\"amount\":50}" {url}/payouts

Choose a method of verification by the IP address of the caller. 127.0.0.1 is not a mobile IP, and 127.0.0.2 is one:

call -d '{"phone_number":"447700900012"}' {url}/verification-method
call --interface 127.0.0.2 -d '{"phone_number":"447700900012"}' {url}/verification-method

List the callbacks of the service with their attempts:

call -H 'Authorization: Bearer {control}' {service}/_sandbox/deliveries

Ctrl-C stops everything and removes all data.
`
