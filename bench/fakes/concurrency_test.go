package fakes

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkConcurrent measures 2,000 reads by several clients at once. The clients share an
// http.Client, which keeps a connection open for each of them.
func BenchmarkConcurrent(b *testing.B) {
	const reads = 2000
	for _, f := range fakes[1:] {
		if !slices.Contains([]string{"sandboxfake", "sandboxfake-in-memory", "gofakes3", "fake-gcs-server"}, f.name) {
			continue
		}
		for _, clients := range []int{8, 64} {
			b.Run(fmt.Sprintf("%s/clients=%d", f.name, clients), func(b *testing.B) {
				base, other := fakes[0].start(b), f.start(b)
				defer base.close()
				defer other.close()
				baseReads, otherReads := concurrent(b, base, clients, reads), concurrent(b, other, clients, reads)
				baseReads() // open the connections
				otherReads()

				alternate(b, baseReads, otherReads)
			})
		}
	}
}

// concurrent returns a function that sends reads requests from several clients at once.
func concurrent(b *testing.B, f fake, clients, reads int) func() {
	transport := f.client.Transport.(*http.Transport)
	transport.MaxIdleConnsPerHost = max(clients, transport.MaxIdleConnsPerHost)
	do(b, f.client, f.read()) // after the first call, read is safe for concurrent use
	return func() {
		var left atomic.Int64
		left.Store(int64(reads))
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					if status, _, err := roundTrip(f.client, f.read()); err != nil || status != http.StatusOK {
						b.Errorf("read: status = %d, error = %v", status, err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}
