package zklock

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// nodeOf returns the node of a lock's name, below the root. Letters, digits, "-" and "_" are
// unchanged; every other byte becomes "%" and two digits.
func nodeOf(name string) string {
	const digits = "0123456789abcdef"
	var s strings.Builder
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			s.WriteByte(c)
			continue
		}
		s.WriteByte('%')
		s.WriteByte(digits[c>>4])
		s.WriteByte(digits[c&15])
	}
	return s.String()
}

// ownerPrefix returns the prefix of an owner's nodes.
func ownerPrefix(o storeapi.Owner) string { return hex.EncodeToString(o[:]) + "-" }

// maxSequence is the largest allowed number of a lock, well below the server's limit. The server
// counts to 2^31 for each parent and then returns the same number again.
const maxSequence = 1<<31 - 1<<16

var errFull = errors.New("zklock: the node of this lock has counted to 2^31 and gives no more places in its queue; stop all that use the lock, and delete its node")

// sequenceNumber returns the number at the end of a node's name.
func sequenceNumber(node string) (int64, error) {
	_, digits, ok := strings.Cut(node, "-")
	n, err := strconv.ParseInt(digits, 10, 32)
	if !ok || err != nil || len(digits) < 10 {
		return 0, fmt.Errorf("zklock: a node of another kind, of %d bytes, is in the queue of a lock; give the locks a root of their own", len(node))
	}
	if n < 0 || n >= maxSequence {
		return 0, errFull
	}
	return n, nil
}

// previousNode returns the node that the own node has to wait for; empty if the own node is the
// first.
func previousNode(queue []string, own string) (previous string, err error) {
	mine, err := sequenceNumber(own)
	if err != nil {
		return "", err
	}
	most := int64(-1)
	for _, node := range queue {
		n, err := sequenceNumber(node)
		switch {
		case err != nil:
			return "", err
		case node != own && n == mine:
			return "", errFull
		case n < mine && n > most:
			most, previous = n, node
		}
	}
	return previous, nil
}

// makeParent creates the node of a lock, and the root if it is missing.
func (b *Backend) makeParent(parent string) error {
	err := b.makeContainer(parent)
	if errors.Is(err, zk.ErrNoNode) {
		if err := b.makeRoot(); err != nil {
			return err
		}
		err = b.makeContainer(parent)
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// makeRoot creates the root and its parents.
func (b *Backend) makeRoot() error {
	for i := 1; i <= len(b.o.Root); i++ {
		if i < len(b.o.Root) && b.o.Root[i] != '/' {
			continue
		}
		if _, err := b.conn.Create(b.o.Root[:i], nil, zk.FlagPersistent, b.o.ACL); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}

// unimplementedText is the client's error for a server that does not know a request.
const unimplementedText = "unknown error: -6"

// makeContainer creates a node that the server removes when it is unused. On servers without
// containers it creates a persistent one. Such a server may end the session after the first
// request, so it gets only one.
func (b *Backend) makeContainer(node string) error {
	if !b.noContainers.Load() {
		_, err := b.conn.CreateContainer(node, nil, zk.FlagContainer, b.o.ACL)
		if err == nil || err.Error() != unimplementedText {
			return err
		}
		b.noContainers.Store(true)
	}
	_, err := b.conn.Create(node, nil, zk.FlagPersistent, b.o.ACL)
	return err
}
