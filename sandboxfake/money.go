package sandboxfake

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/idverify/idverify-go/sandboxfake/internal/rsql"
)

// money is an amount in millionths of a unit of its currency.
type money int64

const (
	moneyDigits = 6
	moneyUnit   = 1_000_000
)

// parseMoney parses a decimal number such as "0.05", without sign or exponent. It accepts at most
// twelve digits before the point and six after it.
func parseMoney(text string) (money, error) {
	whole, fraction, hasPoint := strings.Cut(text, ".")
	if whole == "" || len(whole) > 12 || hasPoint && fraction == "" || len(fraction) > moneyDigits {
		return 0, errMoney
	}
	digits := whole + fraction + strings.Repeat("0", moneyDigits-len(fraction))
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, errMoney
	}
	return money(n), nil
}

var errMoney = fmt.Errorf("amount must be a decimal number such as 12.50, with at most 12 digits before the point and %d after it", moneyDigits)

// String returns the amount without trailing zeros.
func (m money) String() string {
	if m%moneyUnit == 0 {
		return strconv.FormatInt(int64(m/moneyUnit), 10)
	}
	sign := ""
	if m < 0 {
		sign, m = "-", -m
	}
	fraction := strings.TrimRight(fmt.Sprintf("%0*d", moneyDigits, m%moneyUnit), "0")
	return fmt.Sprintf("%s%d.%s", sign, m/moneyUnit, fraction)
}

// moneyField returns a search field of amounts.
func moneyField[T any](value func(T) money) rsql.Field[T] {
	return func(searched rsql.Value) (func(T) (int, bool), error) {
		amount, err := parseMoney(searched.Text)
		return func(item T) (int, bool) { return cmp.Compare(value(item), amount), true }, err
	}
}

// number returns the amount as a JSON number.
func (m money) number() json.Number { return json.Number(m.String()) }
