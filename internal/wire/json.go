package wire

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// Field returns the path of the field that err is about, such as "page.size", or "" if it is not
// known. The path contains only names of fields in lower case, none that a sender chooses.
//
// err.Field depends on the version of Go: 1.26 adds the names of embedded structs. 1.27 adds the
// indexes of arrays and the keys of maps, and has no path for a json.Number.
func Field(err *json.UnmarshalTypeError) string {
	switch err.Type {
	case reflect.TypeFor[json.Number]():
		return ""
	case reflect.TypeFor[float64](): // also a number out of range that is a value of a map[string]any
		if strings.HasPrefix(err.Value, "number") {
			return ""
		}
	}
	return strings.Join(slices.DeleteFunc(strings.Split(err.Field, "."), func(name string) bool {
		return strings.Trim(name, "0123456789") == "" || strings.ToLower(name) != name
	}), ".")
}
