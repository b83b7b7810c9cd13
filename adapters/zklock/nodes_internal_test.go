package zklock

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// FuzzNames: no two names have one node, and each is a single element of a path.
func FuzzNames(f *testing.F) {
	f.Add("a/b", "a%2fb")
	f.Add("..", "%2e%2e")
	f.Add("A", "a")
	f.Fuzz(func(t *testing.T, a, b string) {
		if (a == b) != (nodeOf(a) == nodeOf(b)) {
			t.Errorf("%q and %q are %q and %q", a, b, nodeOf(a), nodeOf(b))
		}
		if node := nodeOf(a); strings.ContainsAny(node, "/.\x00") || a != "" && node == "" {
			t.Errorf("%q is %q", a, node)
		}
	})
}

// TestNodesAreFrozen: processes of two builds queue in one node.
func TestNodesAreFrozen(t *testing.T) {
	t.Parallel()
	assert.Equal(t, nodeOf("ids/a.b/7 é-_Z"), "ids%2fa%2eb%2f7%20%c3%a9-_Z", "the node of a lock")
	owner := storeapi.Owner{0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xaf}
	assert.Equal(t, ownerPrefix(owner), "a00102030405060708090a0b0c0d0eaf-", "the beginning of an owner's nodes")
	b := &Backend{o: Options{Root: "/retrysafe/locks"}}
	assert.Equal(t, b.namespaceNode("shop.1"), "/retrysafe/locks/ids.shop%2e1", "the node of a namespace")
	assert.Equal(t, string(reservation{1795359870000000000, 4294967301}.encode()), "1795359870000000000 4294967301", "a reservation")
}

// FuzzQueue: whatever a list contains, no node is the first if there is a node with a smaller
// number.
func FuzzQueue(f *testing.F) {
	f.Add("00-0000000003", "01-0000000002", "02-0000000001")
	f.Add("00--2147483648", "01-2147483647", "x")
	f.Fuzz(func(t *testing.T, own, a, b string) {
		previous, err := previousNode([]string{a, own, b}, own)
		mine, bad := sequenceNumber(own)
		if err != nil {
			return
		}
		assert.NoError(t, bad, "the own number")
		most := int64(-1)
		for _, node := range []string{a, b} {
			if n, err := sequenceNumber(node); err != nil {
				t.Errorf("%q was passed over", node)
			} else if n < mine {
				most = max(most, n)
			}
		}
		if got, err := sequenceNumber(previous); most >= 0 && (err != nil || got != most) || most < 0 && previous != "" {
			t.Errorf("%q waits for %q", own, previous)
		}
	})
}

func TestNumbersEnd(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{maxSequence, 1<<31 - 1, -1 << 31} {
		_, err := previousNode([]string{fmt.Sprintf("aa-%010d", n)}, fmt.Sprintf("aa-%010d", n))
		assert.True(t, errors.Is(err, errFull), "the number %d is refused", n)
	}
}

// FuzzReservation: a text is a reservation or an error, and a reservation has only one form.
func FuzzReservation(f *testing.F) {
	f.Add([]byte("1795359870000000000 4294967301"))
	f.Add([]byte("0 0"))
	f.Add([]byte("-1 +1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseReservation(text)
		if err != nil {
			assert.Equal(t, r, reservation{}, "what comes with an error")
			return
		}
		assert.True(t, r.until >= 0, "a time before 1970")
		assert.Equal(t, string(r.encode()), string(text), "its text")
	})
	r, err := parseReservation([]byte("17 4"))
	assert.NoError(f, err, "parse")
	assert.Equal(f, r, reservation{17, 4}, "a reservation")
}

// FuzzWelcome: bytes that are not an answer of a server give no time.
func FuzzWelcome(f *testing.F) {
	f.Add([]byte{0, 0, 0, 37, 0, 0, 0, 0, 0, 0, 0x27, 0x10})
	f.Fuzz(func(t *testing.T, head []byte) {
		if d := sessionTime(head); d < 0 || len(head) < headSize && d != 0 {
			t.Errorf("%v", d)
		}
	})
	assert.Equal(f, sessionTime([]byte{0, 0, 0, 37, 0, 0, 0, 0, 0, 0, 0x27, 0x10}), 10*time.Second, "the time")
}
