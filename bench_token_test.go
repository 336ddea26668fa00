package idverify

import (
	"context"
	"testing"
	"time"

	"golang.org/x/oauth2"
)

// BenchmarkTokenHit is what each operation pays for a token that is there, with eight callers at once.
func BenchmarkTokenHit(b *testing.B) {
	c := &tokenCache{
		fetch: func(context.Context, string) (*oauth2.Token, error) {
			return &oauth2.Token{AccessToken: "a", Expiry: time.Now().Add(time.Hour)}, nil
		},
		now:     time.Now,
		entries: make(map[string]*tokenEntry),
	}
	if _, err := c.get(b.Context(), "phone_check"); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetParallelism(4) // times GOMAXPROCS, which is 2 where the figures come from
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.get(b.Context(), "phone_check"); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
