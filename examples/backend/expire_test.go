package main

import "testing"

func TestExpire(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.stop()
	s.value(t, `WITH rows AS (
		INSERT INTO signups (id, phone_number, status, created_at) VALUES
			('old failed', '1', 'failed', now() - interval '25 hours'), ('old rejected', '1', 'rejected', now() - interval '25 hours'),
			('old verified', '1', 'verified', now() - interval '25 hours'), ('new failed', '1', 'failed', now() - interval '23 hours'))
		, starts AS (INSERT INTO signins (phone_number, address, created_at) VALUES
			('old', '192.0.2.1/32', now() - interval '61 minutes'), ('new', '192.0.2.1/32', now() - interval '59 minutes'))
		INSERT INTO sessions (token, phone_number, created_at) VALUES
			('a', 'old', now() - interval '13 hours'), ('b', 'new', now() - interval '11 hours') RETURNING ''`)

	s.value(t, "WITH deleted AS (DELETE FROM river_job) SELECT ''")
	s.start(t)
	s.awaitValue(t, "completed", "SELECT coalesce(max(state::text), '') FROM river_job WHERE kind = 'expire'")

	if got := s.value(t, "SELECT string_agg(id, ', ' ORDER BY created_at DESC) FROM signups"); got != "new failed, old verified" {
		t.Errorf("sign-ups = %s, want new failed, old verified", got)
	}
	if got := s.value(t, "SELECT string_agg(phone_number, ', ') FROM sessions"); got != "new" {
		t.Errorf("sessions = %s, want new", got)
	}
	if got := s.value(t, "SELECT string_agg(phone_number, ', ') FROM signins"); got != "new" {
		t.Errorf("sign-ins = %s, want new", got)
	}
}
