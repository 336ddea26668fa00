package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idverify/idverify-go/replaystore/redis"
)

// redisServer is the Redis server of the replay store.
type redisServer struct{ client *goredis.Client }

// redisChecks returns the checks of the Redis server. They send PING and INFO.
func (d *doctorRun) redisChecks() []doctorCheck {
	if d.redisURL == "" {
		return nil
	}
	return []doctorCheck{
		{name: "redis-connection", needs: []string{"config-ca-file"}, run: d.checkRedis},
		{name: "redis-eviction", needs: []string{"config-ca-file", "redis-connection"}, run: d.checkEviction},
		{name: "redis-memory", needs: []string{"config-ca-file", "redis-connection", "redis-eviction"}, run: d.checkMemory},
	}
}

// noLog discards the log of go-redis, which contains addresses.
type noLog struct{}

// Printf discards a record.
func (noLog) Printf(context.Context, string, ...any) {}

// openRedis returns a client that sends each command once. It does not connect.
func (d *doctorRun) openRedis() (*goredis.Client, error) {
	if d.redis != nil {
		return d.redis.client, nil
	}
	o, err := goredis.ParseURL(d.redisURL)
	if err != nil {
		return nil, err
	}
	o.MaxRetries, o.DialerRetries, o.DisableIdentity, o.ContextTimeoutEnabled = -1, 1, true, true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = d.timeout, d.timeout, d.timeout
	if o.TLSConfig != nil {
		o.TLSConfig.RootCAs = d.roots()
		o.Dialer = tlsDialer(o.TLSConfig, d.timeout/2)
	}
	goredis.SetLogger(noLog{})
	d.redis = &redisServer{goredis.NewClient(o)}
	return d.redis.client, nil
}

// tlsError is an error of a TLS handshake.
type tlsError struct{ err error }

func (e *tlsError) Error() string { return "TLS handshake: " + cause(e.err) }
func (e *tlsError) Unwrap() error { return e.err }

// tlsDialer returns a function that connects with TLS. A server without TLS may not reply to the
// handshake, so it has its own timeout.
func tlsDialer(config *tls.Config, timeout time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, &tlsError{err}
		}
		return secure, nil
	}
}

func (d *doctorRun) checkRedis(ctx context.Context) diagnosis {
	client, err := d.openRedis()
	if err != nil {
		return sick("invalid", "not a URL of Redis, such as rediss://user:password@host:6379/0")
	}
	if err := client.Ping(ctx).Err(); err != nil {
		return redisProblem(err)
	}
	began := time.Now()
	if err := client.Ping(ctx).Err(); err != nil { // the first one has connected
		return redisProblem(err)
	}
	latency := time.Since(began)
	version := redisVersion(ctx, client)
	format := "version %s"
	o := client.Options()
	if o.TLSConfig != nil {
		format += ", TLS"
	}
	if o.Password != "" {
		format += ", with a password"
	}
	format += ", latency %s"
	local := o.Network == "unix" || isLocal(o.Addr)
	switch {
	case !local && o.TLSConfig == nil:
		return sick("unencrypted", format+", without TLS", version, seconds(latency))
	case !local && !verifies(o.TLSConfig):
		return sick("unverified", format+", but the certificate of the server is not verified", version, seconds(latency))
	}
	return healthy(format, version, seconds(latency))
}

// redisProblem classifies an error of the connection.
func redisProblem(err error) diagnosis {
	text := err.Error()
	_, replied := errors.AsType[goredis.Error](err)
	handshake, unverified := errors.AsType[*tlsError](err)
	switch {
	case replied && (strings.HasPrefix(text, "WRONGPASS") || strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "AUTH")):
		return sick("authentication", "Redis rejects the user or the password (%s)", firstWord(text))
	case replied:
		return sick("unavailable", "%s", text)
	case unverified:
		return sick("tls", "%v", handshake)
	}
	return sick(unreachable(err), "%s", cause(err))
}

// firstWord returns the code of an error reply of Redis.
func firstWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}

// redisVersion returns the version of the server, and "cluster" if it belongs to one.
func redisVersion(ctx context.Context, client *goredis.Client) string {
	version := "unknown"
	reply, err := client.Info(ctx, "server").Result()
	if err != nil {
		return version
	}
	cluster := ""
	for line := range strings.Lines(reply) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case name == "redis_version":
			version = value
		case name == "redis_mode" && value == "cluster":
			cluster = " (cluster)"
		}
	}
	return version + cluster
}

// isLocal reports whether an address with a port belongs to this machine.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// checkEviction checks that Redis keeps the claims of the replay store.
func (d *doctorRun) checkEviction(ctx context.Context) diagnosis {
	client, err := d.openRedis()
	if err != nil {
		return sick("unknown", "not a URL of Redis")
	}
	store, err := redis.New(client, &redis.Options{Timeout: d.timeout})
	if err != nil {
		return sick("unknown", "%v", err)
	}
	switch err := store.Check(ctx); {
	case err == nil:
		return healthy("Redis keeps replay claims until they expire")
	case errors.Is(err, redis.ErrEviction):
		return sick("evicts", "%v", err)
	default:
		return sick("unknown", "%v", err)
	}
}
