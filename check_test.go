package idverify_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
)

func TestCheckStatus_Final(t *testing.T) {
	t.Parallel()
	for status, want := range map[idverify.CheckStatus]bool{
		idverify.StatusAccepted: false, idverify.StatusPending: false, "": false, "NEW": false,
		idverify.StatusCompleted: true, idverify.StatusExpired: true, idverify.StatusError: true,
	} {
		if got := status.Final(); got != want {
			t.Errorf("%q: Final() = %t, want %t", status, got, want)
		}
	}
}

func TestSIMCheckService_CreatePeriod(t *testing.T) {
	t.Parallel()
	for period, minutes := range map[time.Duration]int{
		0:                                0, // not sent
		time.Hour:                        60,
		61 * time.Minute:                 61,
		540000 * time.Minute:             540000,
		time.Hour - time.Minute:          -1,
		time.Hour - 1:                    -1,
		time.Hour + 1:                    -1,
		540001 * time.Minute:             -1,
		-time.Hour:                       -1,
		540000*time.Minute + time.Second: -1,
	} {
		srv := newService(t, respondWith(201, `{"check_id":"c","status":"COMPLETED","no_sim_change":true}`))

		_, err := srv.client(t).SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: "447700900000", Period: period})

		if minutes < 0 {
			if !errors.Is(err, idverify.ErrBadRequest) || len(srv.calls()) > 0 {
				t.Errorf("%v: error = %v, want ErrBadRequest and no request", period, err)
			}
			continue
		}
		var sent struct{ Period int }
		if err == nil {
			err = json.Unmarshal(srv.calls()[0].body, &sent)
		}
		if err != nil || sent.Period != minutes {
			t.Errorf("%v: error = %v, period = %d minutes, want no error and %d", period, err, sent.Period, minutes)
		}
	}
}
