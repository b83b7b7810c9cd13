package connectidem

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

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
		return nil, fmt.Errorf("connectidem: a message of type %T is no protocol buffer", v)
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

// failureOf returns the stored form of a method's error.
func failureOf(st *spb.Status) (*rpcidem.Reply, error) {
	body, err := proto.Marshal(st)
	return &rpcidem.Reply{Code: rpcidem.Code(st.GetCode()), Body: body}, err //nolint:gosec // a code
}

// replay is a stored answer. Only package connect can make a [connect.AnyResponse], so replay
// embeds another one for header and trailer, and returns its own message. Connect needs nothing
// else of a handler's answer.
type replay struct {
	*connect.Response[emptypb.Empty]
	message proto.Message
}

// Any returns the message.
func (r *replay) Any() any { return r.message }

// read returns a stored answer: a message of the method's type, or an error. schema is the schema
// of the method, if it is known.
func read(r *rpcidem.Reply, schema any) (connect.AnyResponse, error) {
	if r.Code != rpcidem.OK {
		var s spb.Status
		if err := proto.Unmarshal(r.Body, &s); err != nil || rpcidem.Code(s.GetCode()) != r.Code { //nolint:gosec // a code
			return nil, notReadable(errors.New("connectidem: the kept status cannot be read"))
		}
		return nil, errorOf(&s)
	}
	if method, ok := schema.(protoreflect.MethodDescriptor); ok && string(method.Output().FullName()) != r.Type {
		return nil, notReadable(errors.New("connectidem: the kept message is of another type"))
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(r.Type))
	if err == nil {
		m := kind.New().Interface()
		if err = proto.Unmarshal(r.Body, m); err == nil {
			return &replay{connect.NewResponse(&emptypb.Empty{}), m}, nil
		}
	}
	return nil, notReadable(err)
}

func notReadable(cause error) error {
	return asError(rpcidem.NewRefusal("ANSWER_NOT_READABLE", cause))
}
