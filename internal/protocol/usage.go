package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Usage has the counts of one tenant. The zero Usage counts nothing.
type Usage struct {
	// Rates are in the order of their first use.
	Rates []Rate
	// Buckets are sorted by their ends, which are distinct.
	Buckets []Bucket
}

// Rate is the state of one rate in the generic cell rate algorithm.
type Rate struct {
	// Every is the time between two new keys at that rate.
	Every Micros
	// Next is when the next key would come if all had kept that distance: the theoretical arrival
	// time.
	Next Micros
}

// Bucket has what stops to count at one time.
type Bucket struct {
	Ends        Micros
	Keys, Bytes int64
}

// never is an end that does not come: 2^53 is in the year 2255, and the largest integer that
// scripts can count to.
const never Micros = 1 << 53

// UsageName returns the text under which a store keeps the usage of a tenant: a key without
// operation and id, which no record has.
func UsageName(namespace, tenant string) []byte {
	// never fails
	text, _ := storeapi.StoreKey{Namespace: namespace, Layer: "limit", Key: storeapi.Key{Tenant: tenant}}.AppendText(nil)
	return text
}

// Expires returns when nothing in u counts any more.
func (u *Usage) Expires() Micros {
	var last Micros
	for _, r := range u.Rates {
		last = max(last, r.Next)
	}
	for _, b := range u.Buckets {
		last = max(last, b.Ends)
	}
	return last
}

// Empty reports whether nothing is counted.
func (u *Usage) Empty() bool { return len(u.Rates) == 0 && len(u.Buckets) == 0 }

// usageVersion is the first byte of the packed form.
const usageVersion = 1

const (
	usageHead  = 3 // version, number of rates
	rateSize   = 16
	bucketSize = 24
)

// AppendBinary appends the packed form, version 1; docs/formats.md has the layout.
func (u *Usage) AppendBinary(b []byte) ([]byte, error) {
	if len(u.Rates) > 1<<16-1 {
		return b, errors.New("a tenant has more than 65535 different rates at once; use few")
	}
	b = append(b, usageVersion)
	b = binary.BigEndian.AppendUint16(b, uint16(len(u.Rates))) //nolint:gosec // checked above
	for _, r := range u.Rates {
		b = appendInt64(appendInt64(b, r.Every), r.Next)
	}
	for _, k := range u.Buckets {
		b = appendInt64(appendInt64(appendInt64(b, k.Ends), k.Keys), k.Bytes)
	}
	return b, nil
}

// ParseUsage parses what AppendBinary wrote. No bytes are an empty usage.
func ParseUsage(b []byte) (u Usage, err error) {
	if len(b) == 0 {
		return u, nil
	}
	if b[0] != usageVersion {
		return u, fmt.Errorf("the counts of a tenant have version %d, and this build reads version %d; update this program", b[0], usageVersion)
	}
	damaged := errors.New("the counts of a tenant are damaged; remove them, and counting begins again")
	if len(b) < usageHead {
		return u, damaged
	}
	rates, rest := int(binary.BigEndian.Uint16(b[1:])), b[usageHead:]
	if len(rest) < rates*rateSize || (len(rest)-rates*rateSize)%bucketSize != 0 {
		return u, damaged
	}
	for range rates {
		u.Rates = append(u.Rates, Rate{int64At(rest, 0), int64At(rest, 8)})
		rest = rest[rateSize:]
	}
	for len(rest) > 0 {
		u.Buckets = append(u.Buckets, Bucket{int64At(rest, 0), int64At(rest, 8), int64At(rest, 16)})
		rest = rest[bucketSize:]
	}
	return u, nil
}

func appendInt64(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(n)) //nolint:gosec // two's complement is the format
}

func int64At(b []byte, at int) int64 {
	return int64(binary.BigEndian.Uint64(b[at:])) //nolint:gosec // two's complement is the format
}
