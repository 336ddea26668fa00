package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/synctest"
)

func TestRun_PrintsEachCheck(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer

	synctest.Test(t, func(t *testing.T) { // whose clock does not advance
		err := run(t.Context(), &out)

		if err != nil {
			t.Fatal(err)
		}
	})
	want := `PhoneCheck: does the number belong to this phone?
NUMBER            STATUS     MATCH    CALLBACK
+44 7700 900-012  COMPLETED  yes      verified
+44 7700 900-013  COMPLETED  no       verified
+44 7700 900-099  ERROR      unknown  verified

SIMCheck: has the SIM stayed the same for a week?
NUMBER            STATUS     NO SIM CHANGE
+44 7700 900-012  COMPLETED  yes
+44 7700 900-016  COMPLETED  no
+44 7700 900-099  ERROR      unknown

SubscriberCheck: both, with a code exchange
NUMBER            STATUS     MATCH  NO SIM CHANGE
+44 7700 900-012  COMPLETED  yes    yes
+44 7700 900-016  COMPLETED  yes    no
+44 7700 900-013  COMPLETED  no     unknown

Reachability: is this the address of a phone on mobile data?
ADDRESS     REACHABLE
192.0.2.10  yes: Sandbox Mobile
192.0.2.11  no: not a mobile address (is it on Wi-Fi?)
192.0.2.99  no: its network is not supported
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
