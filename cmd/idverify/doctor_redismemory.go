package main

import (
	"context"
	"strconv"
	"strings"
)

// memoryWarning is the part of maxmemory, in percent, from which Redis is nearly full.
const memoryWarning = 90

// checkMemory checks that Redis has memory for replay claims. With noeviction, a full Redis rejects
// them.
func (d *doctorRun) checkMemory(ctx context.Context) diagnosis {
	client, err := d.openRedis()
	if err != nil {
		return sick("unknown", "not a URL of Redis")
	}
	reply, err := client.Info(ctx, "memory").Result()
	if err != nil {
		found := redisProblem(err)
		return sick("unknown", found.format, found.args...)
	}
	memory := parseMemory(reply)
	used, limit := memory["used_memory"], memory["maxmemory"]
	if used == 0 {
		return sick("unknown", "the reply to INFO has no used_memory")
	}
	if limit == 0 {
		return healthy("%s, without maxmemory", mebibytes(used))
	}
	// Redis does not count the buffers of replicas and of the append-only file.
	used -= memory["mem_not_counted_for_evict"]
	percent := used / limit * 100
	detail := mebibytes(used) + " of " + mebibytes(limit) + " (" + strconv.Itoa(int(percent)) + "%)"
	switch {
	case percent >= 100:
		return sick("full", "%s", detail)
	case percent >= memoryWarning:
		return sick("nearly-full", "%s", detail)
	}
	return healthy("%s", detail)
}

// parseMemory returns the numbers in the section memory of INFO, in bytes.
func parseMemory(reply string) map[string]float64 {
	numbers := make(map[string]float64)
	for line := range strings.Lines(reply) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			numbers[name] = float64(n)
		}
	}
	return numbers
}

func mebibytes(n float64) string { return strconv.FormatFloat(n/(1<<20), 'f', 1, 64) + " MiB" }
