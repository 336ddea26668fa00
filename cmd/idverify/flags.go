package main

// stringList is the value of a repeatable flag.
type stringList []string

// String implements [flag.Value]. It is the default, and never a value, which can be a secret.
func (l *stringList) String() string { return "" }

// Set implements [flag.Value].
func (l *stringList) Set(text string) error {
	*l = append(*l, text)
	return nil
}
