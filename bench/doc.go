// Package bench measures package signature beside a peer, github.com/go-fed/httpsig. It is a module of its own, so that the peer is no dependency of anyone else's.
//
//	cd bench && go test -run '^$' -bench . -count 6
package bench
