package retrysafe

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Progress is what a call has done so far, as its record keeps it until the call has ended: for
// lists, for [Policy].Reconcile, and for whoever has to settle a doubt by hand.
type Progress struct {
	// Plan is the [Policy].Steps of the attempt that kept it; nil where it declared none.
	Plan []string
	// Input is that of a resumable operation, in the engine's codec; its Codec is empty where none
	// is kept.
	Input Answer
	// Steps are those that were finished, in the order in which they were, and those that were
	// begun at most once.
	Steps []StepRecord
	// Reopened is the attempt that reopened the record last (see [Resolution].Reopen):
	// [Attempt.Tries] counts from the next one. Zero: none.
	Reopened int
}

// StepRecord is one step of a half-done call.
type StepRecord struct {
	Name string
	// Finished is false of a step under [AtMostOnce] that was begun: nobody knows what became of
	// it.
	Finished bool
	// Answer is what it returned. It is not kept where all together were too large.
	Answer Answer
}

// Progress reads what a call that has not ended has done so far; the zero Progress where nothing is
// kept, and of finished records. Lists leave it out: look the record up. Its bytes are parts of the
// record's.
func (r *Record) Progress() (Progress, error) {
	if r.State.Finished() || r.Answer.Codec == "" {
		return Progress{}, nil
	}
	return parseProgress(&r.Answer)
}

const (
	progressCodec   = "retrysafe/steps"
	progressVersion = 1

	// With as much of each as is allowed, names and what stands around them have 100 KB: all fits
	// into MaxStored.
	maxStep     = 128       // bytes of a name
	maxSteps    = 128       // in a call
	maxStepBody = 960 << 10 // bytes of all bodies, the input included
)

// progressHead is the first line of the body, in JSON; the bodies of the parts follow, in their
// order, with nothing in between. docs/formats.md shows it.
type progressHead struct {
	Version int            `json:"v"`
	Plan    []string       `json:"plan,omitempty"`
	Input   *progressPart  `json:"input,omitempty"`
	Steps   []progressPart `json:"steps"`

	Reopened int `json:"reopened,omitempty"`
}

type progressPart struct {
	Name  string `json:"name,omitempty"`
	Begun bool   `json:"begun,omitempty"` // and not finished
	Codec string `json:"codec,omitempty"`
	Bytes *int   `json:"bytes,omitempty"` // of its body here; absent: nil
	// Of an answer that is not kept:
	Lost   bool   `json:"lost,omitempty"`
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

func partOf(a *Answer) progressPart {
	p := progressPart{Codec: a.Codec, Lost: !a.Kept}
	if a.Body != nil {
		n := len(a.Body)
		p.Bytes = &n
	}
	if !a.Kept {
		p.Size, p.SHA256 = a.Size, hex.EncodeToString(a.Digest[:])
	}
	return p
}

// head is the first line.
func (p *Progress) head() ([]byte, error) {
	h := progressHead{Version: progressVersion, Plan: p.Plan, Steps: []progressPart{}, Reopened: p.Reopened}
	if p.Input.Codec != "" {
		in := partOf(&p.Input)
		h.Input = &in
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		part := progressPart{Begun: true}
		if s.Finished {
			part = partOf(&s.Answer)
		}
		part.Name = s.Name
		h.Steps = append(h.Steps, part)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&h); err != nil {
		return nil, fmt.Errorf("retrysafe: encode progress: %w", err)
	}
	return b.Bytes(), nil
}

// answer is the progress as stores keep it, at a place in their order.
func (p *Progress) answer(order int64) (*Answer, error) {
	body, err := p.head()
	if err != nil {
		return nil, err
	}
	body = append(body, p.Input.Body...)
	for i := range p.Steps {
		body = append(body, p.Steps[i].Answer.Body...)
	}
	return &Answer{Codec: progressCodec, Body: body, Size: order}, nil
}

// bodies is how many bytes the parts have.
func (p *Progress) bodies() int {
	n := len(p.Input.Body)
	for i := range p.Steps {
		n += len(p.Steps[i].Answer.Body)
	}
	return n
}

var errProgressBody = errors.New("retrysafe: this record was listed, and lists leave out what was done; look it up")

// parseProgress reads what is kept. Bodies are parts of a.Body.
func parseProgress(a *Answer) (p Progress, err error) {
	if a.Codec != progressCodec {
		return p, fmt.Errorf("retrysafe: what was done so far has codec %q; this build reads %q", a.Codec, progressCodec)
	}
	if a.Body == nil {
		return p, errProgressBody
	}
	line, rest, ok := bytes.Cut(a.Body, []byte("\n"))
	var h progressHead
	if !ok || json.Unmarshal(line, &h) != nil {
		return p, errDamagedProgress
	}
	if h.Version != progressVersion {
		return p, fmt.Errorf("retrysafe: what was done so far has format version %d; this build reads version %d", h.Version, progressVersion)
	}
	take := func(part *progressPart) (a Answer) {
		a = Answer{Codec: part.Codec, Kept: !part.Lost, Size: part.Size}
		if part.Bytes != nil {
			n := *part.Bytes
			if n < 0 || n > len(rest) {
				err = errDamagedProgress
				return a
			}
			a.Body, rest = rest[:n:n], rest[n:]
		}
		if part.Lost {
			digest, bad := hex.DecodeString(part.SHA256)
			if bad != nil || copy(a.Digest[:], digest) != len(a.Digest) {
				err = errDamagedProgress
			}
		}
		return a
	}
	p.Plan, p.Reopened = h.Plan, max(0, h.Reopened)
	if h.Input != nil {
		p.Input = take(h.Input)
	}
	for i := range h.Steps {
		s := StepRecord{Name: h.Steps[i].Name, Finished: !h.Steps[i].Begun}
		if s.Finished {
			s.Answer = take(&h.Steps[i])
		}
		p.Steps = append(p.Steps, s)
	}
	if err == nil && len(rest) > 0 {
		err = errDamagedProgress
	}
	if err != nil {
		return Progress{}, err
	}
	return p, nil
}

var errDamagedProgress = errors.New("retrysafe: what was done so far cannot be read; look at the record before you settle it")

// stepName says what is wrong with a name.
func stepName(name string) error {
	switch {
	case name == "":
		return errors.New("the name of a step is empty")
	case len(name) > maxStep:
		return fmt.Errorf("the name of a step has %d bytes, at most %d are allowed", len(name), maxStep)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("the name of a step has characters that cannot be printed")
	}
	return nil
}
