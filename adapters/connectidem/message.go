package connectidem

import (
	"errors"

	"connectrpc.com/connect"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/retrysafe/retrysafe/rpcidem"
)

// codec has the messages of protocol buffers. Their bytes do not depend on the encoding on the
// wire.
var codec = rpcidem.Codec[proto.Message]{
	Kind:      "protocol buffer",
	Marshal:   proto.MarshalOptions{Deterministic: true}.Marshal,
	Unmarshal: proto.Unmarshal,
	Type:      func(m proto.Message) string { return string(m.ProtoReflect().Descriptor().FullName()) },
	New: func(name string) (proto.Message, error) {
		kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name))
		if err != nil {
			return nil, err
		}
		return kind.New().Interface(), nil
	},
}

// replayedResponse is a stored answer. Only package connect can make a [connect.AnyResponse], so
// it embeds another one for header and trailer, and returns its own message. Connect needs
// nothing else of a handler's answer.
type replayedResponse struct {
	*connect.Response[emptypb.Empty]
	message proto.Message
}

// Any returns the message.
func (r *replayedResponse) Any() any { return r.message }

// readReply returns a stored answer: a message of the method's type, or an error. schema is the
// schema of the method, if it is known.
func readReply(r *rpcidem.Reply, schema any) (connect.AnyResponse, error) {
	if r.Code != rpcidem.OK {
		st := new(spb.Status)
		if refusal := codec.Status(r, st, st.GetCode); refusal != nil {
			return nil, asError(refusal)
		}
		return nil, errorOf(st)
	}
	if method, ok := schema.(protoreflect.MethodDescriptor); ok && string(method.Output().FullName()) != r.Type {
		return nil, asError(rpcidem.NewRefusal("ANSWER_NOT_READABLE", errors.New("connectidem: the kept message is of another type")))
	}
	m, refusal := codec.Message(r)
	if refusal != nil {
		return nil, asError(refusal)
	}
	return &replayedResponse{connect.NewResponse(&emptypb.Empty{}), m}, nil
}
