package config

// inherit sets a field that is zero to base.
func inherit[T comparable](field *T, base T) {
	var unset T
	if *field == unset {
		*field = base
	}
}
