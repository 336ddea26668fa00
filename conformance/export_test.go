package conformance

// ParseAuthorization and TakeApart read what the service signs.
func ParseAuthorization(text string) error { _, err := parseAuthorization(text); return err }

// TakeApart returns the query that is left, and what was cut out of it.
func SplitRedirect(location string) (query, authorization, date string, err error) {
	u, authorization, date, err := splitRedirect(location)
	if err != nil {
		return "", "", "", err
	}
	return u.RawQuery, authorization, date, nil
}
