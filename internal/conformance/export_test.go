package conformance

// ParseAuthorization parses the Authorization header of a signed message.
func ParseAuthorization(text string) error { _, err := parseAuthorization(text); return err }

// SplitRedirect returns the remaining query and the two removed parameters, decoded.
func SplitRedirect(location string) (query, authorization, date string, err error) {
	u, authorization, date, err := splitRedirect(location)
	if err != nil {
		return "", "", "", err
	}
	return u.RawQuery, authorization, date, nil
}
