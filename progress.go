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

// Progress is what a call has done so far, as its record stores it until the call has ended. It is
// for lists, for [Policy].Reconcile, and for an operator who resolves a key in doubt by hand.
type Progress struct {
	// Plan is the [Policy].Steps of the attempt that stored it; nil if that declared none.
	Plan []string
	// Input is the input of a resumable operation, in the engine's codec. Its Codec is empty if
	// none is stored.
	Input Answer
	// Steps are the steps that were finished, in the order in which they were, and those under
	// [AtMostOnce] that were begun.
	Steps []StepRecord
	// Reopened is the number of the attempt that last reopened the record (see
	// [Resolution].Reopen). [Attempt.Tries] counts from the next one. Zero means none.
	Reopened int
}

// StepRecord is one step of a half-done call.
type StepRecord struct {
	Name string
	// Finished is false for a step under [AtMostOnce] that was begun and whose outcome is unknown.
	Finished bool
	// Answer is what the step returned. It is not stored if all answers together were too large.
	Answer Answer
}

// ProgressOf returns what the call of a record has done so far, if it has not ended. It returns the
// zero Progress if nothing is stored, and for a finished record. Records from lists do not have it:
// look the record up. The returned bytes are parts of the record's.
func ProgressOf(r *Record) (Progress, error) {
	if r.State.Finished() || r.Answer.Codec == "" {
		return Progress{}, nil
	}
	return parseProgress(&r.Answer)
}

const (
	progressCodec   = "retrysafe/steps"
	progressVersion = 1

	// At the maximum of each, the names and the encoding around them take 100 KB, so everything
	// fits into MaxStored.
	maxStep     = 128       // bytes of a name
	maxSteps    = 128       // in a call
	maxStepBody = 960 << 10 // bytes of all bodies, the input included
)

// progressHead is the first line of the body, in JSON. The bodies of the parts follow in the same
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
	Begun bool   `json:"begun,omitempty"` // begun and not finished
	Codec string `json:"codec,omitempty"`
	Bytes *int   `json:"bytes,omitempty"` // size of its body here; absent: nil
	// For an answer that is not stored:
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

// head returns the first line.
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

// answer returns the progress as it is stored; order becomes its Size.
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

// bodies returns how many bytes the bodies of all parts have.
func (p *Progress) bodies() int {
	n := len(p.Input.Body)
	for i := range p.Steps {
		n += len(p.Steps[i].Answer.Body)
	}
	return n
}

var errProgressBody = errors.New("retrysafe: this record was listed, and lists leave out what was done; look it up")

// parseProgress decodes stored progress. The bodies are parts of a.Body.
func parseProgress(a *Answer) (p Progress, err error) {
	if a.Sealed() {
		return p, errSealedProgress
	}
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

var errSealedProgress = errors.New("retrysafe: what was done so far is sealed, and its key was forgotten or is not here; look at the record before you settle it")

var errDamagedProgress = errors.New("retrysafe: what was done so far cannot be read; look at the record before you settle it")

// stepName returns an error that says what is wrong with a step's name, or nil.
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
