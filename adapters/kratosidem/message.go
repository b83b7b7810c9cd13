package kratosidem

import (
	"fmt"

	"github.com/go-kratos/kratos/v2/errors"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/retrysafe/retrysafe/rpcidem"
)

// marshal returns the bytes of a message, whatever its encoding on the wire. They are the same for
// equal messages of one program, since retries are compared by them.
func marshal(v any) ([]byte, error) {
	m, err := messageOf(v)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

func messageOf(v any) (proto.Message, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("kratosidem: a message of type %T is no protocol buffer", v)
	}
	return m, nil
}

// replyOf returns the stored form of a method's answer.
func replyOf(v any) (*rpcidem.Reply, error) {
	m, err := messageOf(v)
	if err != nil {
		return nil, err
	}
	body, err := proto.Marshal(m)
	return &rpcidem.Reply{Type: string(m.ProtoReflect().Descriptor().FullName()), Body: body}, err
}

// failureOf returns the stored form of a method's error. It is the error's status for gRPC. One
// more detail is the error as Kratos sends it over HTTP, whose status says more than the code.
func failureOf(err error) (*rpcidem.Reply, error) {
	s := proto.Clone(statusOf(err).Proto()).(*spb.Status) //nolint:errcheck // a clone is of its kind
	own, packErr := anypb.New(&errors.FromError(err).Status)
	if packErr != nil {
		return nil, packErr
	}
	s.Details = append(s.Details, own)
	body, packErr := proto.Marshal(s)
	return &rpcidem.Reply{Code: rpcidem.Code(s.GetCode()), Body: body}, packErr //nolint:gosec // a code
}

// read returns a stored answer: a message or an error.
func read(r *rpcidem.Reply) (any, error) {
	if r.Code != rpcidem.OK {
		return nil, readFailure(r)
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(r.Type))
	if err == nil {
		m := kind.New().Interface()
		if err = proto.Unmarshal(r.Body, m); err == nil {
			return m, nil
		}
	}
	return nil, asError(rpcidem.NewRefusal("ANSWER_NOT_READABLE", err))
}

// readFailure returns a stored error.
func readFailure(r *rpcidem.Reply) error {
	s := new(spb.Status)
	if err := proto.Unmarshal(r.Body, s); err != nil || rpcidem.Code(s.GetCode()) != r.Code { //nolint:gosec // a code
		return asError(rpcidem.NewRefusal("ANSWER_NOT_READABLE", err))
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
	return &failure{status.FromProto(s), own}
}
