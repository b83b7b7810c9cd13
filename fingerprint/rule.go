package fingerprint

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

const (
	defaultMaxBytes = 1 << 20
	defaultMaxDepth = 64
	// mostDepth keeps the stack of a reader small.
	mostDepth = 1000
	// mostBytes keeps offsets and exponents within 32 bits.
	mostBytes = 64 << 20
)

// Times are names that fields with the time of sending usually have. Names that may as well mean
// what is asked for are not in it: "time" and "date" of a booking, "t", and "nonce", which is no
// time. Do not change it; slices.Concat joins it with names of yours.
var Times = []string{
	"timestamp", "timeStamp", "time_stamp", "ts", "_ts", "_t", "_",
	"requestTime", "request_time", "requestTimestamp", "request_timestamp",
	"clientTime", "client_time", "clientTimestamp", "client_timestamp",
	"sentAt", "sent_at", "sendTime", "send_time",
}

// Positions are names that fields with the position of the sender's device usually have: it moves
// between two clicks. Leave them in where a position is what is asked for, such as the place where
// a driver shall come to.
var Positions = []string{
	"lat", "latitude", "lng", "lon", "longitude", "accuracy", "altitude", "altitudeAccuracy",
}

// Rule says what of a request counts. The zero Rule counts everything. A field is given as
//
//	timestamp       by name: a parameter of the query, a field of a form, and a member of a JSON object at any level
//	$.order.at      by path: a member of a JSON body; $.at is a field of a form, too
//	$.items[*].at   in each element of an array; $[*].at where the body is an array
//
// Letters of either case differ. A path matches exactly what it says: $.order.at is not found in an
// array. In a path a name has no "." and no brackets; such a field can be given by name, unless it
// begins as a path does. In a form, items[0][at] is one name.
type Rule struct {
	// Ignore are the fields that are left out, with all that they hold.
	Ignore []string
	// Only are the fields that are kept, with all that they hold; empty: all. Objects and arrays
	// around them are kept for their sake, without the elements that hold none. A body that has no
	// fields (text, an image) counts as a whole. What Ignore names is left out of them.
	Only []string
	// NumbersAsWritten tells 10 from 10.0 and 1e1 in a JSON body. By default these are one number,
	// and -0 is 0; in both cases numbers are exact, however many digits they have. Set it where the
	// spelling has a meaning.
	NumbersAsWritten bool
	// MaxBytes is the size of query and body together that is read, in bytes, at most 64 MiB; 0: 1
	// MiB. A larger request is [ErrTooLarge].
	MaxBytes int
	// MaxDepth is how deep arrays and objects of a JSON body may be nested, at most 1000; 0: 64.
	MaxDepth int
}

// Compiled is a rule that was checked and is ready to use. It is safe for concurrent use.
type Compiled struct {
	names     map[string]action
	lengths   uint64 // which lengths names have, modulo 64: most names are not looked up
	paths     *node
	keepAll   bool // there is no Only
	asWritten bool
	maxBytes  int
	maxDepth  int
	id        [sha256.Size]byte
}

// Compile checks the rule and makes it ready; do it once, at start. Later changes of the rule's
// slices do not matter.
func (r Rule) Compile() (*Compiled, error) {
	c := &Compiled{
		names: map[string]action{}, paths: &node{}, keepAll: len(r.Only) == 0,
		asWritten: r.NumbersAsWritten, maxBytes: r.MaxBytes, maxDepth: r.MaxDepth,
	}
	if r.MaxBytes < 0 || r.MaxBytes > mostBytes || r.MaxDepth < 0 || r.MaxDepth > mostDepth {
		return nil, fmt.Errorf("fingerprint: MaxBytes is %d and MaxDepth %d; give at most %d and %d, or 0 for the default", r.MaxBytes, r.MaxDepth, mostBytes, mostDepth)
	}
	if c.maxBytes == 0 {
		c.maxBytes = defaultMaxBytes
	}
	if c.maxDepth == 0 {
		c.maxDepth = defaultMaxDepth
	}
	var errs error
	for _, field := range r.Ignore {
		errs = errors.Join(errs, c.add(field, ignore))
		if slices.Contains(r.Only, field) {
			errs = errors.Join(errs, fmt.Errorf("fingerprint: the field %q is in Ignore and in Only; take it out of one", field))
		}
	}
	for _, field := range r.Only {
		errs = errors.Join(errs, c.add(field, only))
	}
	if errs != nil {
		return nil, errs
	}
	c.id = r.digest()
	return c, nil
}

// digest is of what changes sums; limits do not.
func (r Rule) digest() [sha256.Size]byte {
	var b []byte
	for _, fields := range [][]string{r.Ignore, r.Only} {
		fields = slices.Compact(slices.Sorted(slices.Values(fields)))
		b = binary.AppendUvarint(b, uint64(len(fields)))
		for _, f := range fields {
			b = append(binary.AppendUvarint(b, uint64(len(f))), f...)
		}
	}
	if r.NumbersAsWritten {
		b = append(b, 'w')
	}
	return sha256.Sum256(b)
}

// ID tells rules apart: two rules that give a request different sums have different IDs, whatever
// the order of their fields. Keep it, or a part of it, beside a sum, so that the repeat of a
// request is not taken for another one because the rule was changed in between.
func (c *Compiled) ID() [sha256.Size]byte { return c.id }

func (c *Compiled) add(field string, what action) error {
	if field == "" || field == "$" || !utf8.ValidString(field) {
		return fmt.Errorf("fingerprint: the field %q of the rule is neither a name nor a path such as $.order.at", field)
	}
	if isPath(field) {
		return c.paths.add(field, what)
	}
	c.names[field] |= what
	c.lengths |= 1 << (len(field) & 63)
	return nil
}

// named is what the rule says about the name, wherever it stands.
func (c *Compiled) named(name []byte) action {
	if c.lengths&(1<<(len(name)&63)) == 0 {
		return 0
	}
	return c.names[string(name)]
}
