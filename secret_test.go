package idverify_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	idverify "github.com/idverify/idverify-go"
)

func TestSecret_HiddenFromReflection(t *testing.T) {
	t.Parallel()
	const text = "s3cret-of-client-1"
	credentials := idverify.Credentials{ClientID: "client-1", ClientSecret: idverify.NewSecret(text)}
	client, err := idverify.NewClient("https://eu.api.example.com", credentials)
	if err != nil {
		t.Fatal(err)
	}
	console, err := idverify.NewConsole("https://eu.api.example.com", credentials)
	if err != nil {
		t.Fatal(err)
	}
	type config struct {
		Exported idverify.Secret
		hidden   idverify.Secret
		pointer  *idverify.Secret
		any      any
		list     []idverify.Credentials
		byName   map[string]idverify.Secret
	}
	secret := credentials.ClientSecret
	for name, value := range map[string]any{
		"Secret":              secret,
		"Credentials":         credentials,
		"IssuedCredentials":   &idverify.IssuedCredentials{Credentials: credentials},
		"PaymentMethodParams": idverify.PaymentMethodParams{CardNumber: secret},
		"Client":              client,
		"Console":             console,
		"a user's struct":     config{secret, secret, &secret, secret, []idverify.Credentials{credentials}, map[string]idverify.Secret{"a": secret}},
	} {
		w := newWalker()

		w.walk(addressable(value))

		if len(w.visited) == 0 {
			t.Errorf("%s: the walker visited nothing, want at least one value", name)
		}
		found := strings.Join(w.texts, "\n")
		for _, forbidden := range []string{text, base64.RawStdEncoding.EncodeToString([]byte("client-1:" + text))} {
			if strings.Contains(found, forbidden) {
				t.Errorf("%s: reflection finds %q, want no secret", name, forbidden)
			}
		}
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if printed := fmt.Sprintf(format, value); strings.Contains(printed, text) || strings.Contains(printed, fmt.Sprintf("%x", text)) {
				t.Errorf("%s: %s prints %s, want no secret", name, format, printed)
			}
		}
	}

	// Check the walker: it finds unprotected text in the same kinds of fields.
	type open struct {
		hidden  string
		pointer *string
		any     any
		byName  map[string][]byte
	}
	shown := "shown"
	w := newWalker()
	w.walk(addressable(open{shown, &shown, shown, map[string][]byte{"a": []byte(shown)}}))
	if n := strings.Count(strings.Join(w.texts, "\n"), shown); n != 4 {
		t.Errorf("the walker found %d texts in %q, want 4", n, w.texts)
	}
}

func TestSecret_Equal(t *testing.T) {
	t.Parallel()
	a, same, other := idverify.NewSecret("text-1"), idverify.NewSecret("text-1"), idverify.NewSecret("text-2")
	copied := a
	var zero, otherZero idverify.Secret

	if copied != a || a == other || zero != otherZero {
		t.Error("== must report copies of one Secret as equal, and other secrets as different")
	}
	for _, tt := range []struct {
		name string
		x, y idverify.Secret
		want bool
	}{
		{"copy", a, copied, true},
		{"same text", a, same, true},
		{"other text", a, other, false},
		{"prefix", a, idverify.NewSecret("text"), false},
		{"zero", idverify.Secret{}, idverify.Secret{}, true},
		{"zero and empty", idverify.Secret{}, idverify.NewSecret(""), true},
		{"zero and text", idverify.Secret{}, a, false},
	} {
		if got := tt.x.Equal(tt.y); got != tt.want {
			t.Errorf("%s: Equal = %v, want %v", tt.name, got, tt.want)
		}
		x, y := idverify.Credentials{ClientID: "a", ClientSecret: tt.x}, idverify.Credentials{ClientID: "a", ClientSecret: tt.y}
		for _, opts := range [][]cmp.Option{nil, {cmp.Exporter(func(reflect.Type) bool { return true })}} {
			diff := cmp.Diff(x, y, opts...)
			if (diff == "") != tt.want || strings.Contains(diff, "text-") {
				t.Errorf("%s: cmp.Diff = %q, want equal: %v", tt.name, diff, tt.want)
			}
		}
	}
	if !reflect.DeepEqual(a, copied) {
		t.Error("reflect.DeepEqual = false for a copy, want true")
	}
}

func TestSecret_UnmarshalText(t *testing.T) {
	t.Parallel()
	var v struct{ A, B idverify.Secret }

	err := json.Unmarshal([]byte(`{"A":"text-1"}`), &v)

	if err != nil || v.A.Reveal() != "text-1" || v.B.Reveal() != "" {
		t.Errorf("secrets = %q and %q, error = %v, want text-1 and an empty secret", v.A.Reveal(), v.B.Reveal(), err)
	}
	if b, err := json.Marshal(v); err != nil || string(b) != `{"A":"[REDACTED]","B":"[REDACTED]"}` {
		t.Errorf("JSON = %s, error = %v, want redacted secrets", b, err)
	}
}

func TestSecret_UnmarshalPlaceholder(t *testing.T) {
	t.Parallel()
	printed, err := json.Marshal(idverify.NewSecret("text-1"))
	if err != nil {
		t.Fatal(err)
	}
	secret := idverify.NewSecret("text-2")

	err = json.Unmarshal(printed, &secret)

	if err == nil || !strings.Contains(err.Error(), "placeholder") {
		t.Errorf("error = %v, want one that names the placeholder", err)
	}
	if got := secret.Reveal(); got != "text-2" {
		t.Errorf("secret = %q, want it unchanged", got)
	}
}

// walker collects every text that reflection can reach, including unexported fields.
type walker struct {
	texts   []string
	visited map[visit]bool
}

type visit struct {
	at unsafe.Pointer
	of reflect.Type
}

func newWalker() *walker { return &walker{visited: make(map[visit]bool)} }

// addressable returns an addressable copy of v.
func addressable(v any) reflect.Value {
	value := reflect.New(reflect.TypeOf(v)).Elem()
	value.Set(reflect.ValueOf(v))
	return value
}

// walk visits v, which must be addressable.
func (w *walker) walk(v reflect.Value) {
	// A value made from its address has no read-only flag, so unexported fields can be read.
	at := v.Addr().UnsafePointer()
	v = reflect.NewAt(v.Type(), at).Elem()
	if w.visited[visit{at, v.Type()}] {
		return
	}
	w.visited[visit{at, v.Type()}] = true
	switch v.Kind() {
	case reflect.String:
		w.texts = append(w.texts, v.String())
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			w.texts = append(w.texts, string(v.Bytes()))
			return
		}
		for i := range v.Len() {
			w.walk(v.Index(i))
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			w.walk(field)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			w.walk(v.Elem())
		}
	case reflect.Interface:
		if !v.IsNil() {
			w.walk(addressable(v.Elem().Interface()))
		}
	case reflect.Map:
		for entry := v.MapRange(); entry.Next(); {
			w.walk(addressable(entry.Key().Interface()))
			w.walk(addressable(entry.Value().Interface()))
		}
	}
}
