package config

// inheritField sets a field that is zero to base.
func inheritField[T comparable](field *T, base T) {
	var unset T
	if *field == unset {
		*field = base
	}
}
