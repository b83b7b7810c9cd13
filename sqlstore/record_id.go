package sqlstore

import (
	"bytes"
	"crypto/sha256"
	"errors"

	"github.com/retrysafe/retrysafe/storeapi"
)

// recordID is the primary key: the first half of the SHA-256 of a name. Its length does not depend
// on the name, and no collation affects it. Half a digest keeps rows and indexes short: to meet the
// record of another tenant, an attacker has to find a name with a given digest of 128 bits.
type recordID [sha256.Size / 2]byte

func idOf(key storeapi.StoreKey) recordID {
	text, _ := key.AppendText(make([]byte, 0, 256)) // never fails
	return idOfName(text)
}

func idOfName(name []byte) recordID {
	sum := sha256.Sum256(name)
	return recordID(sum[:len(recordID{})])
}

// The parts column has the parts of a key: namespace, layer, tenant, operation and id, each after
// its length. All records with the same first parts are a range of an index on the column.

// appendParts appends the value of the parts column, or the beginning that keys with the same first
// parts share.
func appendParts(b []byte, parts ...string) []byte {
	for _, part := range parts {
		b = appendField(b, part)
	}
	return b
}

func partsOf(k *storeapi.StoreKey) []byte {
	size := len(k.Namespace) + len(k.Layer) + len(k.Tenant) + len(k.Operation) + len(k.ID)
	return appendParts(make([]byte, 0, size+10), k.Namespace, k.Layer, k.Tenant, k.Operation, k.ID)
}

// parseParts parses the parts column.
func parseParts(b []byte) (k storeapi.StoreKey, err error) {
	p := dataParser{rest: b}
	for _, part := range []*string{&k.Namespace, &k.Layer, &k.Tenant, &k.Operation, &k.ID} {
		*part = string(p.field())
	}
	if p.bad || len(p.rest) > 0 {
		return storeapi.StoreKey{}, errors.New("the record is damaged: its parts column is cut or was changed")
	}
	return k, nil
}

// after returns the first value that is greater than all values that begin with prefix; nil: there
// is none.
func after(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for len(end) > 0 {
		if end[len(end)-1]++; end[len(end)-1] != 0 {
			return end
		}
		end = end[:len(end)-1]
	}
	return nil
}
