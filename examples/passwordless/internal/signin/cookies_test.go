package signin_test

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"
)

func TestSession_Expires(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		age  time.Duration
		want string
	}{
		{15 * time.Minute, "Verified"},
		{15*time.Minute + time.Nanosecond, "No sign-in in progress"},
	} {
		t.Run(row.age.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newShopOf(t)
				b := s.browser(t)
				began := time.Now()
				b.open(b.begin("+44 7700 900-012"))
				b.keepCookies()

				time.Sleep(time.Until(began.Add(row.age))) // synctest's clock

				if got := b.open(s.url + "/check"); got.title != row.want {
					t.Errorf("page = %q, want %q", got.title, row.want)
				}
			})
		})
	}
}

// keepCookies removes the expiry of the browser's cookies.
func (b *browser) keepCookies() {
	b.t.Helper()
	cookies := b.cookies()
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.client.Jar = jar
	b.setCookies(cookies)
}

// cookies returns the browser's cookies for the shop, names and values only.
func (b *browser) cookies() []*http.Cookie {
	b.t.Helper()
	shop, err := url.Parse(b.shop.url)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.client.Jar.Cookies(shop)
}

// setCookies stores cookies for the shop without an expiry.
func (b *browser) setCookies(cookies []*http.Cookie) {
	b.t.Helper()
	shop, err := url.Parse(b.shop.url)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range cookies {
		c.Path, c.Secure = "/", true
	}
	b.client.Jar.SetCookies(shop, cookies)
}
