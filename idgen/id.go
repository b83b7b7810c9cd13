package idgen

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// ID is a positive number of 63 bits. In JSON it is a string, since JavaScript and many other
// languages keep only 53 bits of a number. In SQL it is a BIGINT. The zero ID is not valid.
type ID int64

// String returns the number in decimal.
func (id ID) String() string { return strconv.FormatInt(int64(id), 10) }

var errID = errors.New("idgen: this is no id: write a positive number below 2^63 in decimal")

// Parse parses the result of String, and nothing else: no sign and no leading zero.
func Parse(s string) (ID, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 || s[0] < '1' || s[0] > '9' {
		return 0, errID
	}
	return ID(n), nil
}

// The digits of Short: Crockford's base 32, which has no i, l, o and u, in lower case.
const digits = "0123456789abcdefghjkmnpqrstvwxyz"

// shortSize is the length of every Short.
const shortSize = 13

// Short returns a form for people and URLs: 13 characters, digits and lower-case letters, which
// sort like the ids.
func (id ID) Short() string {
	var b [shortSize]byte
	n := uint64(id) //nolint:gosec // an id is positive
	for i := shortSize - 1; i >= 0; i-- {
		b[i] = digits[n&31]
		n >>= 5
	}
	return string(b[:])
}

// ParseShort parses a Short. It accepts what people may write instead: capitals, o for 0, i and l
// for 1.
func ParseShort(s string) (ID, error) {
	if len(s) != shortSize {
		return 0, fmt.Errorf("idgen: a short id has %d characters, this has %d", shortSize, len(s))
	}
	var n uint64
	for i := range shortSize {
		v := values[s[i]]
		if v < 0 || n>>58 != 0 {
			return 0, errors.New("idgen: this is no short id: write 13 digits and letters without u, the first 0 to 7")
		}
		n = n<<5 | uint64(v)
	}
	if n == 0 || n>>63 != 0 {
		return 0, errors.New("idgen: this short id stands for no id")
	}
	return ID(n), nil
}

// values maps characters to their values; -1 means none.
var values = func() (v [256]int8) {
	for i := range v {
		v[i] = -1
	}
	for i := range int8(len(digits)) {
		c := digits[i]
		v[c] = i
		if c >= 'a' {
			v[c-'a'+'A'] = i
		}
	}
	for _, c := range "oO" {
		v[c] = 0
	}
	for _, c := range "iIlL" {
		v[c] = 1
	}
	return v
}()

// MarshalJSON encodes the id as a string.
func (id ID) MarshalJSON() ([]byte, error) {
	return append(strconv.AppendInt([]byte{'"'}, int64(id), 10), '"'), nil
}

// UnmarshalJSON accepts a string, or a number below 2^53, which is exact everywhere. null leaves
// the id unchanged.
func (id *ID) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return errID
		}
		v, err := Parse(s)
		if err == nil {
			*id = v
		}
		return err
	}
	v, err := Parse(string(b))
	switch {
	case err != nil:
		return err
	case v >= 1<<53:
		return errors.New("idgen: a number of 2^53 and more loses digits on its way through JavaScript; send the id as a string")
	}
	*id = v
	return nil
}

// MarshalText returns String, for map keys and forms.
func (id ID) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(id), 10), nil }

// UnmarshalText parses text like Parse.
func (id *ID) UnmarshalText(b []byte) error {
	v, err := Parse(string(b))
	if err == nil {
		*id = v
	}
	return err
}

// Value implements [driver.Valuer] with an integer.
func (id ID) Value() (driver.Value, error) { return int64(id), nil }

// Scan implements sql.Scanner. It accepts an integer or its text.
func (id *ID) Scan(src any) error {
	switch v := src.(type) {
	case int64:
		if v <= 0 {
			return errID
		}
		*id = ID(v)
		return nil
	case []byte:
		return id.UnmarshalText(v)
	case string:
		return id.UnmarshalText([]byte(v))
	}
	return fmt.Errorf("idgen: a column of type %T has no id; make it BIGINT NOT NULL", src)
}
