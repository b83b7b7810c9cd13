package admin

import (
	"unicode/utf8"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// detailJSON is one record with its history.
type detailJSON struct {
	recordJSON
	Earlier    []attemptJSON `json:"earlier" doc:"attempts before this one that may have had an effect, the oldest first"`
	EarlierCut bool          `json:"earlier_cut" doc:"true if there were more than are kept"`
	MayHave    bool          `json:"may_have_acted" doc:"true if an attempt may have had an effect that the record does not know"`
	Input      bool          `json:"input_kept" doc:"true if the input of the call is kept, so that a worker can finish it"`
	Steps      []stepJSON    `json:"steps" doc:"steps of unfinished work, in their order"`
	Answer     *answerJSON   `json:"answer,omitempty" doc:"the answer that duplicates get"`
	Hidden     *hiddenJSON   `json:"hidden,omitempty" doc:"what only the role reveal sees; only where it is revealed"`
}

// attemptJSON is one attempt of a record.
type attemptJSON struct {
	Attempt int    `json:"attempt" doc:"its number"`
	Fence   uint64 `json:"fence" doc:"its fence"`
}

// stepJSON is one step of a call.
type stepJSON struct {
	Name     string `json:"name" doc:"its name in the program"`
	Finished bool   `json:"finished" doc:"false: it was begun, and its effect is not known"`
	Body     string `json:"body,omitempty" doc:"its answer; only revealed"`
}

// answerJSON describes a stored answer.
type answerJSON struct {
	Codec  string `json:"codec" doc:"how it is encoded"`
	Kept   bool   `json:"kept" doc:"false: it was too large or is not known, and duplicates learn only the outcome"`
	Bytes  int    `json:"bytes" doc:"its size"`
	Status int    `json:"status,omitempty" doc:"of an HTTP answer: its status"`
}

// hiddenJSON has what is a secret of the caller of the service.
type hiddenJSON struct {
	Tenant    string              `json:"tenant" doc:"the caller of the service"`
	ID        string              `json:"id" doc:"the key that it sent"`
	LastError string              `json:"last_error,omitempty" doc:"error of the last attempt"`
	Header    map[string][]string `json:"header,omitempty" doc:"fields of an HTTP answer"`
	Body      string              `json:"body,omitempty" doc:"body of the answer, if it is text"`
	Binary    []byte              `json:"binary,omitempty" doc:"body of the answer, if it is not"`
}

func showRecord(c *apiCall) (any, error) {
	_, rec, err := c.findRecord()
	if err != nil {
		return nil, err
	}
	return c.records.describeRecord(&rec), nil
}

func revealRecord(c *apiCall) (any, error) {
	key, rec, err := c.findRecord()
	if err != nil {
		return nil, err
	}
	out := c.records.describeRecord(&rec)
	err = c.doReveal(c.auditLog(key.Namespace), c.records.Hash(key), func() error {
		out.reveal(&rec)
		return nil
	})
	return out, err
}

// describeRecord returns what everybody who may view sees of a record.
func (d *Records) describeRecord(rec *retrysafe.Record) *detailJSON {
	out := &detailJSON{recordJSON: d.listedRecord(rec), EarlierCut: rec.EarlierCut, MayHave: len(rec.MayHaveWorked()) > 0, Earlier: []attemptJSON{}, Steps: []stepJSON{}}
	for _, w := range rec.Earlier {
		out.Earlier = append(out.Earlier, attemptJSON{w.Attempt, uint64(w.Fence)})
	}
	if rec.State.Finished() {
		out.Answer = answerOf(&rec.Answer)
		return out
	}
	progress, err := retrysafe.ProgressOf(rec)
	if err != nil {
		return out // the steps are of a newer version
	}
	out.Input = progress.Input.Codec != ""
	for _, s := range progress.Steps {
		out.Steps = append(out.Steps, stepJSON{Name: s.Name, Finished: s.Finished})
	}
	return out
}

func answerOf(a *retrysafe.Answer) *answerJSON {
	out := &answerJSON{Codec: a.Codec, Kept: a.Kept, Bytes: len(a.Body)}
	if status, _, _, err := httpidem.ReadStored(*a); err == nil {
		out.Status = status
	}
	return out
}

// reveal adds what is hidden.
func (out *detailJSON) reveal(rec *retrysafe.Record) {
	h := &hiddenJSON{Tenant: rec.Key.Tenant, ID: rec.Key.ID, LastError: rec.LastError}
	out.Hidden = h
	if !rec.State.Finished() {
		progress, _ := retrysafe.ProgressOf(rec) // an unreadable one has no steps
		for i, s := range progress.Steps {
			if i < len(out.Steps) && utf8.Valid(s.Answer.Body) {
				out.Steps[i].Body = string(s.Answer.Body)
			}
		}
		return
	}
	body := rec.Answer.Body
	if _, header, inner, err := httpidem.ReadStored(rec.Answer); err == nil {
		h.Header, body = header, inner
	}
	if utf8.Valid(body) {
		h.Body = string(body)
	} else {
		h.Binary = body
	}
}
