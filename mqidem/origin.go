package mqidem

import (
	"encoding/json"
	"log/slog"

	"github.com/retrysafe/retrysafe"
)

// Records say which source their message came from. The key does not have it: a message that is
// moved to another queue, or mirrored to another cluster, stays the same message.

// origin is what a handler of OnceTx stores as its answer.
type origin struct {
	Source string `json:"source,omitempty"`
}

// storedAnswer returns what is stored of a message that is done.
func (m *Message) storedAnswer() retrysafe.Answer {
	return retrysafe.Answer{Codec: "raw", Body: []byte(m.Source), Kept: true}
}

// storedFailure returns what is stored of a message that is a dead letter.
func (m *Message) storedFailure(why string, err error) *retrysafe.Failure {
	return &retrysafe.Failure{Code: why, Message: err.Error(), Detail: []byte(m.Source)}
}

// recordSource returns the source of the message that a record is about; empty: the record does not
// say.
func recordSource(rec *retrysafe.Record) string {
	a := &rec.Answer
	switch {
	case !a.Kept || a.Sealed():
		return ""
	case rec.State == retrysafe.StateFailed:
		var f retrysafe.Failure
		_ = json.Unmarshal(a.Body, &f) // then it has no detail
		return string(f.Detail)
	case a.Codec == "raw":
		return string(a.Body)
	}
	var o origin
	_ = json.Unmarshal(a.Body, &o) // an engine may have another codec: then it is not known
	return o.Source
}

// warnOtherSource warns if a duplicate comes from another source than the message whose record it
// found. If the two are not copies, the duplicate's work is never done.
func (w *onceHandler) warnOtherSource(m *Message, source string) {
	if source == "" || source == m.Source {
		return
	}
	log := m.passedHandling().logger
	if log == nil {
		log = slog.Default()
	}
	w.limitedLog.write(log, slog.LevelWarn, "mqidem: a message has the id of one that came from another source, and was not run, like a copy of it; "+
		"if ids are unique in each source only, give each source a consumer's name of its own", w.consumer+" "+m.Source+" "+source,
		slog.String("consumer", w.consumer), slog.String("source", m.Source), slog.String("source_of_the_first", source))
}
