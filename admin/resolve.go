package admin

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// resolutionJSON is the outcome of a record in doubt.
type resolutionJSON struct {
	Fence       uint64 `json:"fence" doc:"the fence of the record that was looked at; if it has changed since, nothing happens"`
	Outcome     string `json:"outcome" doc:"done, failed or not-done"`
	Reason      string `json:"reason" doc:"how this is known; it is written to the audit log"`
	Force       bool   `json:"force,omitempty" doc:"also while an attempt holds a live lease; it may still act"`
	Status      int    `json:"status,omitempty" doc:"done: status of the answer that duplicates get; absent: they learn that it was done, and no answer"`
	ContentType string `json:"content_type,omitempty" doc:"done: its Content-Type; default application/json"`
	Location    string `json:"location,omitempty" doc:"done: its Location"`
	Body        string `json:"body,omitempty" doc:"done: its body"`
	Failure     string `json:"failure,omitempty" doc:"failed: what duplicates learn"`
}

// httpLayers are the layers whose answers are HTTP answers.
var httpLayers = []string{"gw", "http", "nginx", "token"}

func resolveRecord(c *apiCall) (any, error) {
	var in resolutionJSON
	if err := c.decodeBody(&in); err != nil {
		return nil, err
	}
	if err := checkReason(in.Reason); err != nil {
		return nil, err
	}
	res, err := in.toResolution(c.caller.Name)
	if err != nil {
		return nil, badRequest(err.Error())
	}
	key, rec, err := c.findRecord()
	if err != nil {
		return nil, err
	}
	if isReservedLayer(key.Layer) {
		return nil, badRequest("entries of the audit log, the check value of the secret and the marks of the store are never resolved")
	}
	if in.Status != 0 && !slices.Contains(httpLayers, key.Layer) {
		return nil, badRequest("status makes an HTTP answer, and this record is of layer " + key.Layer + "; leave it out")
	}
	err = c.doAudited(c.auditLog(key.Namespace), Entry{Action: "resolve", Object: c.records.Hash(key), Reason: in.Reason, Detail: in.Outcome}, func() (string, error) {
		return "", c.records.Resolve(c.r.Context(), key, res)
	})
	if err != nil {
		return nil, err
	}
	if rec, err = c.records.Lookup(c.r.Context(), key); err != nil {
		return nil, err
	}
	return c.records.describeRecord(&rec), nil
}

// toResolution converts the document. Its errors name the members of the document.
func (in *resolutionJSON) toResolution(by string) (res retrysafe.Resolution, err error) {
	res = retrysafe.Resolution{Fence: retrysafe.Fence(in.Fence), Force: in.Force, By: by}
	if in.Fence == 0 {
		return res, errors.New("fence is needed: the record shows it, and it makes sure that the record is still what you saw")
	}
	switch in.Outcome {
	case "not-done":
		res.Outcome = retrysafe.NotDone
	case "failed":
		if in.Failure == "" || !isText(in.Failure, mostReason) {
			return res, fmt.Errorf("failed needs failure: the words that duplicates get, at most %d bytes and without line breaks", mostReason)
		}
		res.Outcome, res.Failure = retrysafe.Failed, &retrysafe.Failure{Code: "resolved", Message: in.Failure}
	case "done":
		res.Outcome = retrysafe.Done
		res.Answer, err = in.storedAnswer()
	default:
		err = errors.New("outcome is done, failed or not-done")
	}
	return res, err
}

func (in *resolutionJSON) storedAnswer() (retrysafe.Answer, error) {
	if in.Status == 0 {
		if in.Body != "" || in.Location != "" || in.ContentType != "" {
			return retrysafe.Answer{}, errors.New("body, location and content_type belong to an answer: give its status too")
		}
		return retrysafe.Answer{}, nil
	}
	media := in.ContentType
	if media == "" {
		media = "application/json"
	}
	if !isText(media, mostReason) || !isText(in.Location, mostReason) {
		return retrysafe.Answer{}, fmt.Errorf("content_type and location have at most %d bytes, and no line breaks", mostReason)
	}
	h := http.Header{"Content-Type": {media}}
	if in.Location != "" {
		h.Set("Location", in.Location)
	}
	return httpidem.StoredAnswer(in.Status, h, []byte(in.Body))
}
