package redisstore_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/checkflow/storetest"
	"github.com/idverify/idverify-go/internal/killtest"
	"github.com/idverify/idverify-go/redisstore"
)

func TestFlows(t *testing.T) {
	t.Parallel()
	srv := startServer(t)

	storetest.Run(t, func(t *testing.T) checkflow.Store {
		return killtest.Alternate(srv.flows(t), srv.flows(t))
	})
}

// TestFlows_Killed kills the processes that share the flows, and Redis once.
func TestFlows_Killed(t *testing.T) {
	t.Parallel()
	srv := startServer(t, "--appendonly", "yes", "--appendfsync", "always")

	killtest.Run(t, srv.flows(t), srv.socket(), func() error {
		srv.kill()
		srv.start(t)
		return nil
	})
}

// openFlows returns the store of a process of TestFlows_Killed.
func openFlows(_ context.Context, socket string) (checkflow.Store, error) {
	return redisstore.NewFlows(redis.NewClient(&redis.Options{Network: "unix", Addr: socket}), &redisstore.Options{Timeout: time.Minute})
}

// TestStores_RedisFull checks that a full Redis rejects claims and new flows, and completes the
// others.
func TestStores_RedisFull(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	flows, admin := srv.flows(t), srv.client(t)
	f := newFlow("live")
	noError(t, flows.Add(t.Context(), f, time.Hour))
	noError(t, admin.ConfigSet(t.Context(), "maxmemory", "1").Err())

	available, added := flows.Available(t.Context()), flows.Add(t.Context(), newFlow("another"), time.Hour)
	claimed, reason, claimErr := flows.Claim(t.Context(), f.CheckID, f.Owner, true)
	finished, finishErr := flows.Finish(t.Context(), f.CheckID)
	fresh, replayErr := srv.store(t).Claim(t.Context(), messageID, time.Minute)

	if fresh || replayErr == nil || !strings.Contains(replayErr.Error(), "OOM command not allowed") {
		t.Errorf("claim of a message: fresh = %t, error = %v; want OOM", fresh, replayErr)
	}
	if !errors.Is(available, checkflow.ErrFull) || !errors.Is(added, checkflow.ErrFull) {
		t.Errorf("Available = %v, Add = %v; want ErrFull", available, added)
	}
	f.State = checkflow.StateClaimed
	if claimed != f || reason != "" || !finished || claimErr != nil || finishErr != nil {
		t.Errorf("Claim = %+v, %q, %v; Finish = %t, %v; want success: the check was charged", claimed, reason, claimErr, finished, finishErr)
	}
	if ttl, err := admin.PTTL(t.Context(), "idverify:flow:live").Result(); err != nil || ttl <= 50*time.Minute || ttl > time.Hour {
		t.Errorf("TTL after Claim and Finish = %s, error %v; want an hour", ttl, err)
	}
}

// TestFlows_LostReplies loses the first reply to each command of the store, so that the client
// sends it again after Redis has processed it.
func TestFlows_LostReplies(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	lost := newLostReplies(math.MaxInt)
	flows := newFlows(t, lost.client(t, srv, 0), &redisstore.Options{Timeout: time.Minute})
	f := newFlow("check")

	added := flows.Add(t.Context(), f, time.Hour)
	_, reason, claimErr := flows.Claim(t.Context(), f.CheckID, f.Owner, true)
	finished, finishErr := flows.Finish(t.Context(), f.CheckID)
	again, againErr := flows.Finish(t.Context(), f.CheckID)

	if n := lost.count(); n < 4 {
		t.Errorf("%d replies were lost, want those of SET, of two changes, and of reads", n)
	}
	if added != nil || reason != "" || !finished || again || errors.Join(claimErr, finishErr, againErr) != nil {
		t.Errorf("Add = %v; Claim = %q, %v; Finish = %t, %v, then %t, %v; want success once", added, reason, claimErr, finished, finishErr, again, againErr)
	}
}

// TestFlows_UnknownValue uses a prefix that another program uses, too.
func TestFlows_UnknownValue(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	flows := srv.flows(t)
	for _, value := range []string{"", "text", "{}", `{"owner":"YQ=="}`} {
		noError(t, srv.client(t).Set(t.Context(), "idverify:flow:check", value, time.Hour).Err())

		_, _, claimed := flows.Claim(t.Context(), "check", [32]byte{}, true)
		finished, err := flows.Finish(t.Context(), "check")

		if claimed == nil || finished || err == nil || !strings.Contains(err.Error(), "Options.Prefix") {
			t.Errorf("value %q: Claim: error %v; Finish = %t, %v; want errors that name Options.Prefix", value, claimed, finished, err)
		}
	}
}

func newFlow(checkID string) checkflow.Flow {
	return checkflow.Flow{CheckID: checkID, Owner: sha256.Sum256([]byte("owner")), State: checkflow.StateStarted, PhoneNumber: "447700900000"}
}

func newFlows(t testing.TB, client redis.UniversalClient, opts *redisstore.Options) *redisstore.Flows {
	t.Helper()
	return must(redisstore.NewFlows(client, opts))(t)
}
