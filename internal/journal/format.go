package journal

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Progress is what a call has done so far. Its fields are those of retrysafe.Progress.
type Progress struct {
	Plan     []string
	Input    storeapi.Answer
	Steps    []Step
	Reopened int
}

// Step is one step of a half-done call. Its fields are those of retrysafe.StepRecord.
type Step struct {
	Name     string
	Finished bool
	Answer   storeapi.Answer
}

const (
	Codec   = "retrysafe/steps"
	version = 1

	// At the maximum of each, the names and the encoding around them take 100 KB, so everything
	// fits into MaxStored.
	maxName  = 128       // bytes of a name
	MaxSteps = 128       // in a call
	MaxBody  = 960 << 10 // bytes of all bodies, the input included
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

func encodePart(a *storeapi.Answer) progressPart {
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

// encodeHead returns the first line.
func (p *Progress) encodeHead() ([]byte, error) {
	h := progressHead{Version: version, Plan: p.Plan, Steps: []progressPart{}, Reopened: p.Reopened}
	if p.Input.Codec != "" {
		in := encodePart(&p.Input)
		h.Input = &in
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		part := progressPart{Begun: true}
		if s.Finished {
			part = encodePart(&s.Answer)
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

// Answer returns the progress as it is stored; order becomes its Size.
func (p *Progress) Answer(order int64) (*storeapi.Answer, error) {
	body, err := p.encodeHead()
	if err != nil {
		return nil, err
	}
	body = append(body, p.Input.Body...)
	for i := range p.Steps {
		body = append(body, p.Steps[i].Answer.Body...)
	}
	return &storeapi.Answer{Codec: Codec, Body: body, Size: order}, nil
}

// bodyBytes returns how many bytes the bodies of all parts have.
func (p *Progress) bodyBytes() int {
	n := len(p.Input.Body)
	for i := range p.Steps {
		n += len(p.Steps[i].Answer.Body)
	}
	return n
}

var errProgressBody = errors.New("retrysafe: this record was listed, and lists leave out what was done; look it up")

// Parse decodes stored progress. The bodies are parts of a.Body.
func Parse(a *storeapi.Answer) (p Progress, err error) {
	if a.Sealed() {
		return p, errSealedProgress
	}
	if a.Codec != Codec {
		return p, fmt.Errorf("retrysafe: what was done so far has codec %q; this build reads %q", a.Codec, Codec)
	}
	if a.Body == nil {
		return p, errProgressBody
	}
	line, rest, ok := bytes.Cut(a.Body, []byte("\n"))
	var h progressHead
	if !ok || json.Unmarshal(line, &h) != nil {
		return p, errDamagedProgress
	}
	if h.Version != version {
		return p, fmt.Errorf("retrysafe: what was done so far has format version %d; this build reads version %d", h.Version, version)
	}
	take := func(part *progressPart) (a storeapi.Answer) {
		a = storeapi.Answer{Codec: part.Codec, Kept: !part.Lost, Size: part.Size}
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
		s := Step{Name: h.Steps[i].Name, Finished: !h.Steps[i].Begun}
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

// CheckName returns an error that says what is wrong with a step's name, or nil.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("the name of a step is empty")
	case len(name) > maxName:
		return fmt.Errorf("the name of a step has %d bytes, at most %d are allowed", len(name), maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("the name of a step has characters that cannot be printed")
	}
	return nil
}
