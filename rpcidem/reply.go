package rpcidem

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/retrysafe/retrysafe"
)

// Reply is the stored form of what a method answered. Any protocol of this project can replay it.
type Reply struct {
	Code Code
	// Type is the full name of the message, for OK.
	Type string
	// Body is the message in the binary form of protocol buffers. For an error it is a
	// google.rpc.Status.
	Body []byte
}

// codecName is the codec of stored replies. The format is frozen: a byte 1, then as unsigned
// varints the code and the length of the type, then the type, then the body.
const codecName = "rpc"

const replyVersion = 1

func (r *Reply) encode() []byte {
	b := binary.AppendUvarint([]byte{replyVersion}, uint64(r.Code))
	b = binary.AppendUvarint(b, uint64(len(r.Type)))
	return append(append(b, r.Type...), r.Body...)
}

var errReply = errors.New("rpcidem: the kept reply cannot be read")

func decodeReply(b []byte) (*Reply, error) {
	if len(b) == 0 || b[0] != replyVersion {
		return nil, errReply
	}
	code, n := binary.Uvarint(b[1:])
	if n <= 0 || code >= uint64(len(codeNames)) {
		return nil, errReply
	}
	rest := b[1+n:]
	size, n := binary.Uvarint(rest)
	if n <= 0 || size > uint64(len(rest)-n) { //nolint:gosec // n is within rest
		return nil, errReply
	}
	rest = rest[n:]
	return &Reply{Code: Code(code), Type: string(rest[:size]), Body: rest[size:]}, nil
}

// storedAnswer returns the answer to store. If the answer is too large or cannot be encoded, the
// record only says that there was one.
func (g *Guard) storedAnswer(res Result) retrysafe.Answer {
	limit := min(g.policy.WithDefaults().MaxAnswer, 1<<20)
	r, err := res.Reply()
	if err != nil {
		return retrysafe.Answer{Codec: codecName}
	}
	body := r.encode()
	if int64(len(r.Body)) > limit || len(body) > retrysafe.MaxStored {
		return retrysafe.Answer{Codec: codecName, Size: int64(len(r.Body)), Digest: sha256.Sum256(r.Body)}
	}
	return retrysafe.Answer{Codec: codecName, Body: body, Kept: true}
}

// replayRecord returns the answer of a finished record.
func replayRecord(rec *retrysafe.Record) (*Reply, *Refusal) {
	switch {
	case rec.State == retrysafe.StateFailed:
		r := refusalFor(retrysafe.CodeResolvedFailed, nil)
		if f, err := retrysafe.FailureOf(rec.Answer); err == nil {
			r.Message = f.Message
		}
		return nil, r
	case !rec.Answer.Kept:
		return nil, refusalFor(retrysafe.CodeAnswerNotKept, nil)
	case rec.Answer.Codec != codecName:
		return nil, refusalFor(retrysafe.CodeAnswerNotReadable, nil)
	}
	reply, err := decodeReply(rec.Answer.Body)
	if err != nil {
		return nil, refusalFor(retrysafe.CodeAnswerNotReadable, err)
	}
	return reply, nil
}

// StoredReply returns the answer that duplicates of a call will get. It is for an operator who
// resolves a call in doubt and knows its answer.
func StoredReply(r *Reply) (retrysafe.Answer, error) {
	body := r.encode()
	if len(body) > retrysafe.MaxStored {
		return retrysafe.Answer{}, errors.New("rpcidem: the reply is too large to keep")
	}
	return retrysafe.Answer{Codec: codecName, Body: body, Kept: true}, nil
}

// payloadDigest distinguishes a duplicate from another request with the same key. It is the SHA-256
// of "retrysafe rpc 1\n", the method, a line feed, and the request.
func payloadDigest(method string, payload []byte) []byte {
	h := sha256.New()
	h.Write([]byte("retrysafe rpc 1\n" + method + "\n"))
	h.Write(payload)
	return h.Sum(nil)
}
