package zklock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/lock"
)

// NewWorkers returns worker numbers for ids that are held in ZooKeeper, in the session of b. Each
// number is held by a lock; a persistent node beside it has the holder's reservation. Options are
// those of package idgen, with a namespace of at most 128 bytes. NewWorkers panics on invalid
// options.
//
// A number is lost ([idgen.Held.Done]) when its lock is lost: after two fifths of the session's
// time without an answer of the server, or after a lease if that is shorter. Its generator
// continues to the end of its reservation. The number of a dead process is free when the session
// has ended and the reservation is over.
//
// The lock keeps others from trying the number. Ids are unique without it: a holder writes a
// reservation only over the version that it has read, and only if its own fence is in it. The next
// holder first writes its fence over the version that it has read, and starts after the reservation
// in it. After that write no earlier holder can write.
func NewWorkers(b *Backend, o *idgen.WorkersOptions) *idgen.Workers {
	if b == nil || o != nil && (len(o.Namespace) > 128 || strings.IndexByte(o.Namespace, 0) >= 0) {
		panic("zklock: NewWorkers needs a backend, and a namespace of at most 128 bytes without NUL")
	}
	return idgen.NewWorkersOn(&numberSource{backend: b, locks: lock.New(b, nil)}, o)
}

// numberSource is the source of NewWorkers.
type numberSource struct {
	backend *Backend
	locks   *lock.Locker
}

// Agree implements [idgen.Numbers]. The node of a namespace stores the layout of its ids. A
// confirmed layout is stored on a quorum.
func (n *numberSource) Agree(ctx context.Context, namespace string, layout idgen.Layout) error {
	node := n.backend.namespaceNode(namespace)
	is, err := callWithResult(ctx, n.backend, func() (string, error) {
		_, err := n.backend.conn.Create(node, []byte(layout.String()), zk.FlagPersistent, n.backend.o.ACL)
		if errors.Is(err, zk.ErrNoNode) {
			if err = n.backend.makeRoot(); err == nil {
				_, err = n.backend.conn.Create(node, []byte(layout.String()), zk.FlagPersistent, n.backend.o.ACL)
			}
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return "", stepError("keep the layout of the ids", err)
		}
		if _, err := n.backend.conn.Sync(node); err != nil {
			return "", stepError("read the layout of the ids", err)
		}
		text, _, err := n.backend.conn.Get(node)
		if err != nil {
			return "", stepError("read the layout of the ids", err)
		}
		return string(text), nil
	})
	if err == nil && is != layout.String() {
		err = idgen.OtherLayout(is, layout)
	}
	return err
}

// namespaceNode returns the node of a namespace of worker numbers.
func (b *Backend) namespaceNode(namespace string) string {
	return b.o.Root + "/ids." + nodeOf(namespace)
}

// Claim implements [idgen.Numbers].
func (n *numberSource) Claim(ctx context.Context, r idgen.NumberRequest) (idgen.Claimed, error) {
	held, err := n.locks.TryLock(ctx, "ids/"+r.Namespace+"/"+strconv.Itoa(r.Number), lock.WithLease(r.Lease), lock.WithMaxHold(r.Lease))
	switch {
	case errors.Is(err, lock.ErrHeld):
		return idgen.Claimed{}, idgen.ErrTaken
	case err != nil:
		return idgen.Claimed{}, err
	}
	w := &workerLock{backend: n.backend, lock: held, node: n.backend.namespaceNode(r.Namespace) + "/" + strconv.Itoa(r.Number)}
	t, err := w.takeOver(ctx)
	if err != nil {
		_ = w.Release(ctx, "")
	}
	return t, err
}

// workerLock is the hold on one number.
type workerLock struct {
	backend *Backend
	lock    *lock.Lock
	node    string // of the reservation
}

// takeOver adds the fence of this holder to the existing reservation: from then on no earlier
// holder can raise it. The server's answer to the write has the server's time.
func (w *workerLock) takeOver(ctx context.Context) (idgen.Claimed, error) {
	fence := w.lock.Fence()
	return callWithResult(ctx, w.backend, func() (idgen.Claimed, error) {
		was, version, err := w.backend.readReservation(w.node)
		if errors.Is(err, zk.ErrNoNode) {
			if err = w.backend.makeReservation(w.node); err == nil {
				was, version, err = w.backend.readReservation(w.node)
			}
		}
		switch {
		case err != nil:
			return idgen.Claimed{}, stepError("read the reservation of a worker number", err)
		case was.fence >= fence:
			return idgen.Claimed{}, fmt.Errorf("zklock: the reservation of a worker number is of a later holder (fence %d) than this one (%d); "+
				"nodes that were copied to an ensemble that began again are of no use there: choose another namespace when their times are over", was.fence, fence)
		}
		stat, err := w.backend.conn.Set(w.node, reservation{was.until, fence}.encode(), version)
		switch {
		case errors.Is(err, zk.ErrBadVersion): // of a holder that has lost the lock, at this moment
			return idgen.Claimed{}, idgen.ErrTaken
		case err != nil:
			return idgen.Claimed{}, stepError("take over the reservation of a worker number", err)
		}
		t := idgen.Claimed{NumberLease: w, Fence: fence, Now: time.UnixMilli(stat.Mtime), Lost: w.lock.Done()}
		if was.until > 0 {
			t.Reserved = time.Unix(0, was.until)
		}
		return t, nil
	})
}

// Reserve implements [idgen.NumberLease]. It reads each time what was written last and whether the
// last write arrived.
func (w *workerLock) Reserve(ctx context.Context, until time.Time, lease time.Duration) error {
	ns := until.UnixNano()
	if err := w.lock.Extend(ctx, lease); err != nil {
		if cause := w.lock.Err(); cause != nil {
			return leaseLostError(cause)
		}
		return err
	}
	fence := w.lock.Fence()
	_, err := callWithResult(ctx, w.backend, func() (struct{}, error) {
		was, version, err := w.backend.readReservation(w.node)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return struct{}{}, leaseLostError(errors.New("somebody has deleted its reservation"))
		case err != nil:
			return struct{}{}, stepError("read the own reservation", err)
		case was.fence != fence:
			return struct{}{}, leaseLostError(errors.New("another holder has taken it over"))
		case was.until >= ns: // an earlier call, or one that was overtaken
			return struct{}{}, nil
		}
		if _, err := w.backend.conn.Set(w.node, reservation{ns, fence}.encode(), version); err != nil {
			return struct{}{}, stepError("write the own reservation", err)
		}
		return struct{}{}, nil
	})
	return err
}

func leaseLostError(cause error) error {
	return fmt.Errorf("zklock: the worker number is lost: %w (%w)", retrysafe.ErrLeaseLost, cause)
}

// Release implements [idgen.NumberLease]. It continues after ctx has ended.
func (w *workerLock) Release(ctx context.Context, _ string) error {
	return w.backend.callClient(ctx, func() error { return w.lock.Release(ctx) })
}

// callWithResult is callClient with a result. f may continue after it has returned because ctx has
// ended.
func callWithResult[T any](ctx context.Context, b *Backend, f func() (T, error)) (T, error) {
	var got, none T
	if err := b.callClient(ctx, func() (err error) { got, err = f(); return err }); err != nil {
		return none, err // f may still write got
	}
	return got, nil
}

// reservation is the content of a node: the upper limit of the times of ids, in nanoseconds since
// 1970, and the fence of the holder. Zero means that there was none yet.
type reservation struct {
	until int64
	fence retrysafe.Fence
}

func (r reservation) encode() []byte { return fmt.Appendf(nil, "%d %d", r.until, r.fence) }

var errForeign = errors.New("the node holds something else; give the worker numbers a root of their own")

func parseReservation(text []byte) (r reservation, err error) {
	until, fence, ok := strings.Cut(string(text), " ")
	u, err := strconv.ParseUint(until, 10, 63)
	if !ok || err != nil {
		return r, errForeign
	}
	f, err := strconv.ParseUint(fence, 10, 64)
	r = reservation{int64(u), retrysafe.Fence(f)}
	if err != nil || !bytes.Equal(r.encode(), text) {
		return reservation{}, errForeign
	}
	return r, nil
}

// readReservation returns the state of the leader.
func (b *Backend) readReservation(node string) (r reservation, version int32, err error) {
	if _, err = b.conn.Sync(node); err != nil {
		return r, 0, err
	}
	text, stat, err := b.conn.Get(node)
	if err != nil {
		return r, 0, err
	}
	r, err = parseReservation(text)
	return r, stat.Version, err
}

// makeReservation creates the node if it is missing. The node of the namespace exists, since it has
// the layout.
func (b *Backend) makeReservation(node string) error {
	_, err := b.conn.Create(node, reservation{}.encode(), zk.FlagPersistent, b.o.ACL)
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}
