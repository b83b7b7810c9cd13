//go:build !race

package statespace_test

import (
	"fmt"
	"reflect"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// twin is memstore together with a row that gets the same calls: what the exhaustive search finds
// out about the row is true of memstore too.
type twin struct {
	*memory
	row    rows
	differ string // the first difference
}

func newTwin(at int64) *twin {
	return &twin{memory: newMemory(at), row: rows{time: at, rules: &rules{}}}
}

func (t *twin) same(what string, got, want any) {
	if t.differ == "" && !reflect.DeepEqual(got, want) {
		t.differ = fmt.Sprintf("%s: memstore answers %+v, and the row %+v", what, got, want)
	}
}

func (t *twin) move(by int64) {
	t.memory.move(by)
	t.row.move(by)
}

func (t *twin) acquire(req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	got, err := t.memory.acquire(req)
	want, wantErr := t.row.acquire(req)
	t.same("Acquire", got, want)
	t.same("Acquire", err, wantErr)
	return got, err
}

func (t *twin) extend(h holder, lease time.Duration, works bool) error {
	err := t.memory.extend(h, lease, works)
	t.same("Extend", err, t.row.extend(h, lease, works))
	return err
}

func (t *twin) complete(h holder, state storeapi.State, body []byte) error {
	err := t.memory.complete(h, state, body)
	t.same("Complete", err, t.row.complete(h, state, body))
	return err
}

func (t *twin) release(h holder, inDoubt bool) error {
	err := t.memory.release(h, inDoubt)
	t.same("Release", err, t.row.release(h, inDoubt))
	return err
}

func (t *twin) lookup() storeapi.Record {
	rec := t.memory.lookup()
	t.same("Lookup", rec, t.row.lookup())
	return rec
}

func (t *twin) sweep() {
	t.memory.sweep()
	t.row.sweep()
}
