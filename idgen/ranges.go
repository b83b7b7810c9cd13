package idgen

import (
	"context"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Ranges is where a [Segment] gets its values: a counter for each tag that a database keeps.
// Packages sqlranges and redisranges have such, and package rangestest finds out whether another
// one will do. It is safe for concurrent use.
type Ranges interface {
	// Take gives count values in a row, first and those behind it: n of them, or more where the
	// source has a larger step for the tag. n is 1 or more. Each value is given once, to one caller
	// of all processes, for ever, also if the source crashes behind its answer: it has kept what it
	// gives before it says so. Values are 1 or more, and of two calls of which one begins after the
	// other has ended, the later gets the greater.
	//
	// [ErrNoTag]: there is no such tag, and nothing was given; a tag is made by people, never by a
	// call of Take, since one that was lost would begin anew. [ErrSpent]: there are not as many
	// values below 2^63. With any other error nobody knows whether values were given; they are
	// nobody's then.
	Take(ctx context.Context, tag string, n int64) (first, count int64, err error)
}

// The errors of ranges; test with errors.Is.
var (
	// ErrNoTag: the source has no such tag.
	ErrNoTag = errors.New("idgen: there is no such tag; make it once, with a first value above all that were ever given for it")
	// ErrSpent: the tag has no more values below 2^63.
	ErrSpent = errors.New("idgen: the values of the tag are used up")
	// ErrTag: this can be no tag.
	ErrTag = errors.New("idgen: a tag has 1 to 128 bytes of UTF-8, no control characters, and no space at its ends")
)

// CheckTag says whether text can be a tag; the error is [ErrTag].
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

// MaxStep is the largest step; it bounds what a crash wastes.
const MaxStep = 1 << 40

// CheckNew says whether a tag can be made so, for sources: with a first value of 1 or more, and a
// step of 1 to [MaxStep].
func CheckNew(tag string, first, step int64) error {
	if err := CheckTag(tag); err != nil {
		return err
	}
	if first < 1 || step < 1 || step > MaxStep {
		return fmt.Errorf("idgen: a tag is made with first value %d and step %d; use a first value of 1 or more, and a step of 1 to %d", first, step, int64(MaxStep))
	}
	return nil
}
