package signin_test

import (
	"net/http/cookiejar"
	"net/url"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"
)

func TestASessionEndsThoughTheBrowserKeepsItsCookie(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		age  time.Duration
		want string
	}{
		{15 * time.Minute, "Verified"},
		{15*time.Minute + time.Nanosecond, "Nothing under way"},
	} {
		t.Run(row.age.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newShopOf(t)
				b := s.browser(t)
				began := time.Now()
				b.open(b.begin("+44 7700 900-012"))
				b.keepCookies()

				time.Sleep(time.Until(began.Add(row.age))) // the bubble's clock

				if got := b.open(s.url + "/check"); got.title != row.want {
					t.Errorf("the page says %q, want %q", got.title, row.want)
				}
			})
		})
	}
}

// keepCookies has the browser forget when its cookies end.
func (b *browser) keepCookies() {
	b.t.Helper()
	shop, err := url.Parse(b.shop.url)
	if err != nil {
		b.t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	cookies := b.client.Jar.Cookies(shop)
	for _, c := range cookies {
		c.Path, c.Secure = "/", true
	}
	jar.SetCookies(shop, cookies)
	b.client.Jar = jar
}
