package kratosidem

import (
	"github.com/go-kratos/kratos/v2/errors"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"

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

// storedFailure returns the stored form of a method's error. It is the error's status for gRPC. One
// more detail is the error as Kratos sends it over HTTP, whose status says more than the code.
func storedFailure(err error) (*rpcidem.Reply, error) {
	s := proto.Clone(statusOf(err).Proto()).(*spb.Status) //nolint:errcheck // a clone is of its kind
	own, packErr := anypb.New(&errors.FromError(err).Status)
	if packErr != nil {
		return nil, packErr
	}
	s.Details = append(s.Details, own)
	return codec.Failure(rpcidem.Code(s.GetCode()), s) //nolint:gosec // a code
}

// readReply returns a stored answer: a message or an error.
func readReply(r *rpcidem.Reply) (any, error) {
	if r.Code != rpcidem.OK {
		return nil, readFailure(r)
	}
	m, refusal := codec.Message(r)
	if refusal != nil {
		return nil, asError(refusal)
	}
	return m, nil
}

// readFailure returns a stored error.
func readFailure(r *rpcidem.Reply) error {
	s := new(spb.Status)
	if refusal := codec.Status(r, s, s.GetCode); refusal != nil {
		return asError(refusal)
	}
	var own *errors.Error
	for i, d := range s.GetDetails() {
		kept := new(errors.Status)
		if d.MessageIs(kept) && d.UnmarshalTo(kept) == nil {
			own = errors.New(int(kept.GetCode()), kept.GetReason(), kept.GetMessage()).WithMetadata(kept.GetMetadata())
			s.Details = append(s.Details[:i], s.Details[i+1:]...)
			break
		}
	}
	if own == nil { // it came over plain gRPC or Connect
		own = errors.FromError(status.ErrorProto(s))
	}
	return &kratosFailure{status.FromProto(s), own}
}
