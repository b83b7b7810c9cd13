package storeapi

import (
	"context"
	"time"
)

// CauseCrash is the cause of a record in doubt whose lease has expired: its process died, or was
// cut off. The record itself has no cause. Lists, the API and metrics show this one.
const CauseCrash = "crash"

// CauseAsked is the cause of a record in doubt while an attempt finds out its outcome. The record
// itself has no cause meanwhile. Lists, the API and metrics show this one.
const CauseAsked = "asked"

// ShownCause returns the cause of a record for people and metrics: CauseCrash or CauseAsked if it
// is in doubt without a cause.
func ShownCause(rec *Record) string {
	switch {
	case rec.Cause != "":
	case rec.InDoubt():
		return CauseCrash
	case rec.Asked():
		return CauseAsked
	}
	return rec.Cause
}

// EachInDoubt calls each for the records in doubt in s, with ShownCause and Record.Age, by the
// store's clock. It stops after most records, so that it does not read through a store that is full
// of them. An error is that of List.
func EachInDoubt(ctx context.Context, s Lister, most int, each func(cause string, age time.Duration)) error {
	req := ListRequest{InDoubt: true, Limit: min(most, 1000)}
	for n := 0; n < most; {
		page, err := s.List(ctx, req)
		if err != nil {
			return err
		}
		for i := range page.Records {
			each(ShownCause(&page.Records[i]), page.Records[i].Age())
		}
		n += len(page.Records)
		if req.After = page.Next; page.Next == "" {
			break
		}
	}
	return nil
}
