package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Selection says which records are meant. A zero field selects all.
type Selection struct {
	storeapi.ListRequest
	// Tenants are those of one caller, see [Records.TenantsOf]; nil: all.
	Tenants []string
	// ID is the key that the client sent.
	ID string
	// Since and Until bound when the key was first used. Until itself is left out.
	Since, Until time.Time
}

// Selects reports whether the fields that a store does not know select the record.
func (s *Selection) Selects(rec *retrysafe.Record) bool {
	return (s.Tenants == nil || slices.Contains(s.Tenants, rec.Key.Tenant)) && (s.ID == "" || s.ID == rec.Key.ID) &&
		(s.Since.IsZero() || !rec.Created.Before(s.Since)) && (s.Until.IsZero() || rec.Created.Before(s.Until))
}

// callerEngine has the digests of callers, which are the same in all namespaces.
func (d *Records) callerEngine() *retrysafe.Engine {
	return d.Engine(storeapi.StoreKey{Namespace: "app", Layer: "gw"})
}

// TenantsOf returns the tenants that the records of a caller can have.
func (d *Records) TenantsOf(n httpidem.CallerName) []string { return n.Tenants(d.callerEngine()) }

// AccountsOf returns the tenants for which limits of a caller can be counted.
func (d *Records) AccountsOf(n httpidem.CallerName) []string { return n.Accounts(d.callerEngine()) }

// mostCandidates bounds the records of an [AmbiguousError].
const mostCandidates = 20

// AmbiguousError says that a name is that of several records. It is an [ErrAmbiguous].
type AmbiguousError struct {
	// Records are the first of them, without their answers.
	Records []retrysafe.Record
	// More says that there are more of them.
	More bool
	what string // hash or key
}

// Error says what to do. It does not quote the name.
func (e *AmbiguousError) Error() string {
	return "several records have this " + e.what + ": " + ErrAmbiguous.Error()
}

// Unwrap returns [ErrAmbiguous].
func (e *AmbiguousError) Unwrap() error { return ErrAmbiguous }

// AnswerQuery is what a stored answer has to have. Both fields are a look at what is hidden.
type AnswerQuery struct {
	// Location is the Location or Content-Location of an HTTP answer, or its path.
	Location string
	// Text is a part of the body, or of one of these fields.
	Text string
}

// leastText is the least length of a text that is searched for: a search for less would find out
// the answers of others, byte by byte.
const leastText = 4

// ErrShortText says that the text of an [AnswerQuery] is too short.
var ErrShortText = fmt.Errorf("the text of an answer has at least %d bytes", leastText)

// Validate returns [ErrShortText] or nil.
func (q *AnswerQuery) Validate() error {
	if q.Text != "" && len(q.Text) < leastText {
		return ErrShortText
	}
	return nil
}

// IsZero reports whether any answer will do.
func (q *AnswerQuery) IsZero() bool { return *q == AnswerQuery{} }

// AnswerMatch says what a search found out about the answer of a record.
type AnswerMatch uint8

// The results of [Records.MatchAnswer].
const (
	AnswerDiffers  AnswerMatch = iota + 1 // it was read, and has not what is searched for
	AnswerMatches                         // it has what is searched for
	AnswerNotKept                         // there is no stored answer
	AnswerSealed                          // it is encrypted, and this process has no key for it
	AnswerVanished                        // the record is gone
)

// MatchAnswer compares the stored answer of a listed record. It reads the answer, and returns
// nothing of it.
func (d *Records) MatchAnswer(ctx context.Context, listed *retrysafe.Record, q AnswerQuery) (AnswerMatch, error) {
	switch {
	case !listed.State.Finished() || !listed.Answer.Kept:
		return AnswerNotKept, nil
	case listed.Answer.Sealed():
		return AnswerSealed, nil
	}
	rec, err := d.Lookup(ctx, listed.Key)
	switch {
	case errors.Is(err, retrysafe.ErrNotFound):
		return AnswerVanished, nil
	case err != nil:
		return 0, err
	case rec.Answer.Sealed():
		return AnswerSealed, nil
	case !rec.State.Finished() || !rec.Answer.Kept:
		return AnswerNotKept, nil
	}
	body, header := rec.Answer.Body, http.Header(nil)
	if _, h, inner, err := httpidem.ReadStored(rec.Answer); err == nil {
		body, header = inner, h
	}
	if q.Location != "" && !slices.ContainsFunc(locations(header), func(at string) bool { return isLocation(at, q.Location) }) {
		return AnswerDiffers, nil
	}
	if q.Text != "" && !bytes.Contains(body, []byte(q.Text)) &&
		!slices.ContainsFunc(locations(header), func(at string) bool { return strings.Contains(at, q.Text) }) {
		return AnswerDiffers, nil
	}
	return AnswerMatches, nil
}

func locations(h http.Header) []string { return slices.Concat(h["Location"], h["Content-Location"]) }

// isLocation reports whether a field is a location, as it stands there or by its path.
func isLocation(field, want string) bool {
	if field == want {
		return true
	}
	u, err := url.Parse(field)
	return err == nil && strings.HasPrefix(want, "/") && u.RequestURI() == want
}

// ForgetAnswer removes what a finished record tells of a person; see [storeapi.Forgetter]. The
// error is [errors.ErrUnsupported] if the store cannot do it.
func (d *Records) ForgetAnswer(ctx context.Context, k storeapi.StoreKey, fence retrysafe.Fence) error {
	f, ok := d.store.(storeapi.Forgetter)
	if !ok {
		return errors.ErrUnsupported
	}
	return f.ForgetAnswer(ctx, storeapi.ForgetRequest{Key: k, Fence: fence})
}
