package redisstore_test

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/idverify/idverify-go/redisstore"
	"github.com/idverify/idverify-go/signature"
)

// Every replica uses the same Redis and the same prefix.
func Example() {
	client := redis.NewClient(&redis.Options{Addr: "redis:6379"})
	defer client.Close()
	replays, err := redisstore.NewReplays(client, &redisstore.Options{Prefix: "shop:replay:"})
	if err != nil {
		fmt.Println(err)
		return
	}
	keys, err := signature.NewJWKS("https://eu.api.example.com/.well-known/jwks.json", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	verifier, err := signature.NewVerifier(keys, []string{"shop.example.com"}, &signature.VerifierOptions{Replay: replays})
	if err != nil {
		fmt.Println(err)
		return
	}

	fmt.Println("ready:", verifier != nil)
	// Output: ready: true
}
