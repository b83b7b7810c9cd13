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

// TimeFields returns common names of fields with the time of sending. It leaves out names that may
// as well be part of the request: "time" and "date" of a booking, "t", and "nonce", which is no
// time. Use append or slices.Concat to add your own names.
func TimeFields() []string { return slices.Clone(times) }

var times = []string{
	"timestamp", "timeStamp", "time_stamp", "ts", "_ts", "_t", "_",
	"requestTime", "request_time", "requestTimestamp", "request_timestamp",
	"clientTime", "client_time", "clientTimestamp", "client_timestamp",
	"sentAt", "sent_at", "sendTime", "send_time",
}

// PositionFields returns common names of fields with the position of the sender's device, which
// changes between two clicks. Do not ignore them if a position is part of the request, such as
// where a driver should come to.
func PositionFields() []string { return slices.Clone(positions) }

var positions = []string{
	"lat", "latitude", "lng", "lon", "longitude", "accuracy", "altitude", "altitudeAccuracy",
}

// Rule says what counts in a request. The zero Rule counts everything. A field is written as
//
//	timestamp       by name: a parameter of the query, a field of a form, and a member of a JSON object at any level
//	$.order.at      by path: a member of a JSON body; $.at is a field of a form, too
//	$.items[*].at   in each element of an array; $[*].at where the body is an array
//
// Names are case-sensitive. A path matches exactly what it says: $.order.at does not match in an
// array. A name within a path has no "." and no brackets. Such a field can be given by name, unless
// it begins like a path. In a form, items[0][at] is one name.
type Rule struct {
	// Ignore are the fields that are left out, with everything in them.
	Ignore []string
	// Only are the fields that are kept, with everything in them; empty: all fields. The objects
	// and arrays around them are kept too, without elements that have none of the fields. A body
	// without fields (text, an image) counts as a whole. Fields in Ignore are left out of Only.
	Only []string
	// NumbersAsWritten makes 10, 10.0 and 1e1 different numbers in a JSON body. By default they are
	// equal, and -0 is 0. In both cases numbers are exact, however many digits they have. Set it if
	// the spelling has a meaning.
	NumbersAsWritten bool
	// DistinctNames refuses an object with two names that differ only in case. Some programs take
	// them for one name (encoding/json of Go for the fields of a struct), and others for two. It
	// does not change the sums of other bodies.
	DistinctNames bool
	// MaxBytes is the largest size of query and body together, in bytes, at most 64 MiB; 0: 1 MiB.
	// A larger request returns [ErrTooLarge].
	MaxBytes int
	// MaxDepth is the deepest nesting of arrays and objects in a JSON body, at most 1000; 0: 64.
	MaxDepth int
}

// Compiled is a checked rule, ready for use. It is safe for concurrent use.
type Compiled struct {
	names map[string]action
	// bit set of the lengths of names, modulo 64, so that most names need no lookup
	lengths uint64
	// some of names are ignored
	ignoresNames bool
	paths        *pathNode
	keepAll      bool // Only is empty
	asWritten    bool
	distinct     bool // DistinctNames
	maxBytes     int
	maxDepth     int
	id           [sha256.Size]byte
}

// Compile checks the rule and prepares it. Call it once, at start. Later changes of the rule's
// slices have no effect.
func (r Rule) Compile() (*Compiled, error) {
	c := &Compiled{
		names: map[string]action{}, paths: &pathNode{}, keepAll: len(r.Only) == 0,
		asWritten: r.NumbersAsWritten, distinct: r.DistinctNames, maxBytes: r.MaxBytes, maxDepth: r.MaxDepth,
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
		errs = errors.Join(errs, c.addField(field, actionIgnore))
		if slices.Contains(r.Only, field) {
			errs = errors.Join(errs, fmt.Errorf("fingerprint: the field %q is in Ignore and in Only; take it out of one", field))
		}
	}
	for _, field := range r.Only {
		errs = errors.Join(errs, c.addField(field, actionOnly))
	}
	if errs != nil {
		return nil, errs
	}
	c.id = r.digest()
	return c, nil
}

// digest covers what changes sums; limits do not.
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

// ID identifies the rule: two rules that give a request different sums have different IDs, whatever
// the order of their fields. Store it, or a part of it, with a sum, so that after a change of the
// rule a duplicate does not count as another request.
func (c *Compiled) ID() [sha256.Size]byte { return c.id }

func (c *Compiled) addField(field string, what action) error {
	if field == "" || field == "$" || !utf8.ValidString(field) {
		return fmt.Errorf("fingerprint: the field %q of the rule is neither a name nor a path such as $.order.at", field)
	}
	if isPath(field) {
		return c.paths.addPath(field, what)
	}
	c.names[field] |= what
	c.ignoresNames = c.ignoresNames || what == actionIgnore
	c.lengths |= 1 << (len(field) & 63)
	return nil
}

// actionFor returns what the rule says about a name, at any place.
func (c *Compiled) actionFor(name []byte) action {
	if c.lengths&(1<<(len(name)&63)) == 0 {
		return 0
	}
	return c.names[string(name)]
}
