package grpcidem

import (
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

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

// readReply returns a stored answer: a message, or the error of a status.
func readReply(r *rpcidem.Reply) (any, error) {
	if r.Code != rpcidem.OK {
		s := new(spb.Status)
		if refusal := codec.Status(r, s, s.GetCode); refusal != nil {
			return nil, asStatus(refusal)
		}
		return nil, status.ErrorProto(s)
	}
	m, refusal := codec.Message(r)
	if refusal != nil {
		return nil, asStatus(refusal)
	}
	return m, nil
}
