package fakes

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/oauth2-proxy/mockoidc"
	"gopkg.in/dnaeon/go-vcr.v4/pkg/recorder"
)

// startMockOIDC returns a fake that reads its discovery document, because mockoidc has no
// resources.
func startMockOIDC(t testing.TB) fake {
	m := must(mockoidc.Run())(t)
	client := &http.Client{Transport: &http.Transport{}}
	return fake{
		client: client,
		ping:   m.DiscoveryEndpoint(),
		read:   func() *http.Request { return request(http.MethodGet, m.DiscoveryEndpoint(), nil) },
		close: func() {
			client.CloseIdleConnections()
			m.Shutdown()
		},
	}
}

func startGoFakeS3(t testing.TB) fake {
	srv := httptest.NewTLSServer(gofakes3.New(s3mem.New()).Server())
	f := newBucket(t, srv.Client(), srv.URL)
	f.close = srv.Close
	return f
}

// newBucket returns a fake that stores objects with the protocol of S3.
func newBucket(t testing.TB, client *http.Client, url string) fake {
	n := 0
	put := func() *http.Request {
		if n == 0 {
			send(t, client, request(http.MethodPut, url+"/bucket", nil)) // fails if the bucket exists
		}
		n++
		return request(http.MethodPut, fmt.Sprint(url, "/bucket/", n), checkBody)
	}
	return fake{
		client: client,
		ping:   url,
		read: func() *http.Request {
			fill(t, client, 1, &n, put)
			return request(http.MethodGet, url+"/bucket/1", nil)
		},
		create: put,
		list: func() *http.Request {
			fill(t, client, pageSize, &n, put)
			return request(http.MethodGet, fmt.Sprint(url, "/bucket?max-keys=", pageSize), nil)
		},
	}
}

// startFakeGCS returns a fake that stores objects in memory with the protocol of Google Cloud
// Storage.
func startFakeGCS(t testing.TB) fake {
	// Its own listener has no client that trusts the certificate.
	gcs := must(fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true}))(t)
	gcs.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: "bucket"})
	srv := httptest.NewTLSServer(gcs.HTTPHandler())
	client, n := srv.Client(), 0
	upload := func() *http.Request {
		n++
		return request(http.MethodPost, fmt.Sprint(srv.URL, "/upload/storage/v1/b/bucket/o?uploadType=media&name=", n), checkBody)
	}
	return fake{
		client: client,
		ping:   srv.URL + "/storage/v1/b/bucket",
		read: func() *http.Request {
			fill(t, client, 1, &n, upload)
			return request(http.MethodGet, srv.URL+"/storage/v1/b/bucket/o/1?alt=media", nil)
		},
		create: upload,
		list: func() *http.Request {
			fill(t, client, pageSize, &n, upload)
			return request(http.MethodGet, fmt.Sprint(srv.URL, "/storage/v1/b/bucket/o?maxResults=", pageSize), nil)
		},
		close: func() {
			srv.Close()
			gcs.Stop()
		},
	}
}

// startVCR returns a client that replays a recorded response. It has no network and no server, so
// compare it with sandboxfake-in-memory.
func startVCR(t testing.TB) fake {
	vcr := must(recorder.New("testdata/check", recorder.WithMode(recorder.ModeReplayOnly), recorder.WithReplayableInteractions(true), recorder.WithSkipRequestLatency(true)))(t)
	const check = "https://service.example/checks/1"
	return fake{
		client: vcr.GetDefaultClient(),
		ping:   check,
		read:   func() *http.Request { return request(http.MethodGet, check, nil) },
		close:  func() { vcr.Stop() },
	}
}
