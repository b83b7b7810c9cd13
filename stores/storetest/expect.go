package storetest

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

var statusNames = [...]string{
	"no status", "StatusAcquired", "StatusInProgress", "StatusFinished", "StatusInDoubt", "StatusMismatch", "StatusPrincipalChanged", "StatusFenceChanged", "StatusNotIssued",
	"StatusAlreadyIssued", "StatusOwnerSpent",
}

func statusName(s storeapi.Status) string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status %d", s)
}

func wantStatus(t assert.T, got, want storeapi.Status, what string) {
	t.Helper()
	if got != want {
		t.Fatalf("Acquire, %s: got %s, want %s", what, statusName(got), statusName(want))
	}
}

// wantLeaseLost wants ErrLeaseLost and an unchanged record.
func (e *env) wantLeaseLost(before storeapi.Record, err error, what string) {
	e.Helper()
	assert.ErrorIs(e, err, storeapi.ErrLeaseLost, "%s", what)
	e.wantUnchanged(before, what)
}

// wantUnchanged wants the record to be the same as before, except for the time that has passed.
func (e *env) wantUnchanged(before storeapi.Record, what string) {
	e.Helper()
	if d := diffRecords(e.keptPart(e.lookup(before.Key)), e.keptPart(before)); d != "" {
		e.Fatalf("%s: the record was changed: %s", what, d)
	}
}

// keptPart returns what a store keeps of the record: all of it, except for a finished one of a
// light store.
func (e *env) keptPart(r storeapi.Record) storeapi.Record {
	if e.f.Light && r.State.Finished() {
		r.Fingerprint, r.Binding, r.Answer, r.LastError = nil, nil, storeapi.Answer{}, ""
		r.Created, r.Updated = time.Time{}, time.Time{}
	}
	return r
}

// wantSame wants two views of one record to be equal.
func (e *env) wantSame(got, want storeapi.Record, what string) {
	e.Helper()
	if d := diffRecords(e.keptPart(got), e.keptPart(want)); d != "" {
		e.Fatalf("%s: %s", what, d)
	}
}

// wantAnswered wants a finished record with this answer.
func (e *env) wantAnswered(r storeapi.Record, state storeapi.State, want storeapi.Answer, what string) {
	e.Helper()
	assert.Equal(e, r.State, state, "%s: state", what)
	if d := diffAnswer(r.Answer, e.keptPart(storeapi.Record{State: state, Answer: want}).Answer); d != "" {
		e.Fatalf("%s: %s", what, d)
	}
}

// precision is the largest error that stores may make in a time.
const precision = time.Millisecond

func leaseEnd(r storeapi.Record) time.Time { return r.Now.Add(r.LeaseLeft) }

func isNear(a, b time.Time) bool { return a.Sub(b).Abs() <= precision }

// diffRecords returns the names of the fields in which two views of a record differ.
func diffRecords(got, want storeapi.Record) string {
	var d []string
	field := func(name string, got, want any) {
		if !reflect.DeepEqual(got, want) {
			d = append(d, fmt.Sprintf("%s is %+v, want %+v", name, got, want))
		}
	}
	text := func(name, got, want string) { field(name, fmt.Sprintf("%+q", got), fmt.Sprintf("%+q", want)) }
	instant := func(name string, got, want time.Time) {
		if got.IsZero() != want.IsZero() || !isNear(got, want) {
			d = append(d, fmt.Sprintf("%s is %v, want %v", name, got, want))
		}
	}
	text("key", strings.Join(keyParts(got.Key), "/"), strings.Join(keyParts(want.Key), "/"))
	field("state", got.State, want.State)
	field("attempt", got.Attempt, want.Attempt)
	field("fence", got.Fence, want.Fence)
	field("owner", got.Owner, want.Owner)
	field("asks", got.Asks, want.Asks)
	field("earlier attempts", got.Earlier, want.Earlier)
	field("more earlier attempts", got.EarlierCut, want.EarlierCut)
	field("policy on doubt", got.OnDoubt, want.OnDoubt)
	text("fingerprint", string(got.Fingerprint), string(want.Fingerprint))
	text("binding", string(got.Binding), string(want.Binding))
	field("issued", got.Issued, want.Issued)
	text("cause", got.Cause, want.Cause)
	text("last error", got.LastError, want.LastError)
	instant("created", got.Created, want.Created)
	instant("updated", got.Updated, want.Updated)
	instant("expires", got.Expires, want.Expires)
	if want.LeaseLeft <= 0 || !want.DoubtSince.IsZero() || got.LeaseLeft > 0 {
		// otherwise a lease has ended in between
		instant("in doubt since", got.DoubtSince, want.DoubtSince)
	}
	// Time may have passed between the two views: an expired lease stays expired, and a live one
	// may have expired by itself.
	if got.LeaseLeft > 0 || want.LeaseLeft > 0 && got.Now.Before(leaseEnd(want).Add(-precision)) {
		instant("end of the lease", leaseEnd(got), leaseEnd(want))
	}
	if s := diffAnswer(got.Answer, want.Answer); s != "" {
		d = append(d, s)
	}
	return strings.Join(d, "; ")
}

// diffAnswer compares answers byte for byte, and says where long ones begin to differ.
func diffAnswer(got, want storeapi.Answer) string {
	var d []string
	if got.Codec != want.Codec {
		d = append(d, fmt.Sprintf("codec is %q, want %q", got.Codec, want.Codec))
	}
	if got.Kept != want.Kept || got.Size != want.Size || got.Digest != want.Digest {
		d = append(d, fmt.Sprintf("kept, size, digest are %v %d %x…, want %v %d %x…",
			got.Kept, got.Size, got.Digest[:4], want.Kept, want.Size, want.Digest[:4]))
	}
	switch {
	case (got.Body == nil) != (want.Body == nil):
		d = append(d, fmt.Sprintf("body nil is %v, want %v (both have %d bytes)", got.Body == nil, want.Body == nil, len(want.Body)))
	case !bytes.Equal(got.Body, want.Body):
		n := 0
		for n < min(len(got.Body), len(want.Body)) && got.Body[n] == want.Body[n] {
			n++
		}
		d = append(d, fmt.Sprintf("body of %d bytes differs at byte %d from the one of %d bytes", len(got.Body), n, len(want.Body)))
	}
	return strings.Join(d, "; ")
}
