package httpidem

import (
	"fmt"
	"net/http"

	"github.com/retrysafe/retrysafe"
)

// StoredAnswer returns an answer in the stored format, for an operator who resolves a request in
// doubt and knows its answer. Duplicates of the request then get it.
func StoredAnswer(status int, h http.Header, body []byte) (retrysafe.Answer, error) {
	if status < 200 || status > 599 {
		return retrysafe.Answer{}, fmt.Errorf("httpidem: status %d is no answer; use 200 to 599", status)
	}
	msg := append(appendHead(nil, status, h, nil, false), body...)
	if len(msg) > retrysafe.MaxStored {
		return retrysafe.Answer{}, fmt.Errorf("httpidem: the answer has %d bytes, at most %d are kept", len(msg), retrysafe.MaxStored)
	}
	return retrysafe.Answer{Codec: codecName, Body: msg, Kept: true}, nil
}
