package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// devicePath returns the path that looks up an address that ends in suffix, from a range reserved
// for documentation.
func devicePath(suffix string) string { return "/coverage/v0.1/device_ips/192.0.2." + suffix }

func (r *run) reachable(ctx context.Context) error {
	for _, suffix := range []string{"10", "2", "4", "6", "8"} {
		resp, err := r.call(ctx, "coverage", http.MethodGet, devicePath(suffix), "")
		if err != nil {
			return err
		}
		o, err := resp.object(200)
		if err != nil {
			return fmt.Errorf("address ending in %s: %w", suffix, err)
		}
		for _, name := range []string{"network_id", "network_name", "country_code"} {
			if _, err := o.text(name); err != nil {
				return err
			}
		}
		if code := o["country_code"].(string); len(code) != 2 {
			return errors.New("country_code does not have two letters")
		}
		if products, ok := o["supported_products"].([]any); !ok || len(products) == 0 {
			return errors.New("supported_products is empty or not a list")
		}
	}
	return nil
}

// unreachable tests a lookup that must fail with this problem.
func unreachable(suffix string, status int, fragment, detail string) func(*run, context.Context) error {
	return func(r *run, ctx context.Context) error {
		resp, err := r.call(ctx, "coverage", http.MethodGet, devicePath(suffix), "")
		if err != nil {
			return err
		}
		if resp.status != status {
			return fmt.Errorf("status is %s, want %s", statusText(resp.status), statusText(status))
		}
		got, err := resp.problem()
		if err != nil {
			return err
		}
		if got != fragment {
			return fmt.Errorf("problem fragment is %s, want %q", describe(got), fragment)
		}
		o, err := parseObject(resp.body)
		if err != nil {
			return err
		}
		return o.want(object{"detail": detail})
	}
}
