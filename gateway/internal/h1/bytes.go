package h1

// Alphanumeric are the letters and digits of ASCII.
const Alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// ByteSet has true for each byte that belongs to the set.
type ByteSet [256]bool

// BytesOf returns the set of the bytes of s.
func BytesOf(s string) (set ByteSet) {
	for i := range len(s) {
		set[s[i]] = true
	}
	return set
}

// Has reports whether all bytes of s belong to the set.
func (set *ByteSet) Has(s string) bool {
	for i := range len(s) {
		if !set[s[i]] {
			return false
		}
	}
	return true
}

var (
	ofName  = BytesOf(Alphanumeric + "!#$%&'*+-.^_`|~")
	ofValue = func() (set ByteSet) { // including bytes above ASCII, as net/http does
		for c := range set {
			set[c] = c >= ' ' && c != 0x7f || c == '\t'
		}
		return set
	}()
)

// IsName reports whether s can be the name of a field.
func IsName(s string) bool { return s != "" && ofName.Has(s) }

// IsValue reports whether s can be the value of a field.
func IsValue(s string) bool { return ofValue.Has(s) }
