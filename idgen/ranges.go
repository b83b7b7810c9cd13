package idgen

import (
	"context"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Ranges is a source of values for a [Segment]: a database with a counter for each tag. Packages
// sqlranges and redisranges implement it, and package rangestest tests other implementations. It is
// safe for concurrent use.
type Ranges interface {
	// Allocate assigns count consecutive values, starting with first: n of them, or more if the
	// source has a larger step for the tag. n is 1 or more. Each value is assigned once, to one
	// caller of all processes, for ever. This also holds if the source crashes after its answer: it
	// stores the assignment before it answers. Values are 1 or more. If one call begins after
	// another has ended, it gets greater values.
	//
	// [ErrNoTag] means that there is no such tag, and nothing was assigned. Operators create tags;
	// Allocate never does, since a tag that was lost would start again from the beginning.
	// [ErrSpent] means that there are fewer values than that below 2^63. After any other error it
	// is unknown whether values were assigned; such values are never used.
	Allocate(ctx context.Context, tag string, n int64) (first, count int64, err error)
}

// The errors of ranges; test with errors.Is.
var (
	// ErrNoTag means that the source has no such tag.
	ErrNoTag = errors.New("idgen: there is no such tag; make it once, with a first value above all that were ever given for it")
	// ErrSpent means that the tag has no more values below 2^63.
	ErrSpent = errors.New("idgen: the values of the tag are used up")
	// ErrTag means that the text is not a valid tag.
	ErrTag = errors.New("idgen: a tag has 1 to 128 bytes of UTF-8, no control characters, and no space at its ends")
)

// CheckTag returns [ErrTag] if text is not a valid tag.
func CheckTag(text string) error {
	if len(text) < 1 || len(text) > 128 || !utf8.ValidString(text) {
		return ErrTag
	}
	first, _ := utf8.DecodeRuneInString(text)
	last, _ := utf8.DecodeLastRuneInString(text)
	if unicode.IsSpace(first) || unicode.IsSpace(last) {
		return ErrTag
	}
	for _, c := range text {
		if unicode.IsControl(c) {
			return ErrTag
		}
	}
	return nil
}

// MaxStep is the largest step. It limits what a crash wastes.
const MaxStep = 1 << 40

// CheckNew checks the arguments for a new tag, for implementations of sources: a first value of 1
// or more, and a step of 1 to [MaxStep].
func CheckNew(tag string, first, step int64) error {
	if err := CheckTag(tag); err != nil {
		return err
	}
	if first < 1 || step < 1 || step > MaxStep {
		return fmt.Errorf("idgen: a tag is made with first value %d and step %d; use a first value of 1 or more, and a step of 1 to %d", first, step, int64(MaxStep))
	}
	return nil
}
