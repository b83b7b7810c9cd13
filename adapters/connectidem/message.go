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

// marshal makes the bytes of a message, however it was written on the wire: the same ones for equal
// messages of one program, which is what a retry is compared by.
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

// replyOf makes the form that is kept of a method's answer.
func replyOf(v any) (*rpcidem.Reply, error) {
	m, err := messageOf(v)
	if err != nil {
		return nil, err
	}
	body, err := proto.Marshal(m)
	return &rpcidem.Reply{Type: string(m.ProtoReflect().Descriptor().FullName()), Body: body}, err
}

// failureOf makes the form that is kept of a method's error.
func failureOf(st *spb.Status) (*rpcidem.Reply, error) {
	body, err := proto.Marshal(st)
	return &rpcidem.Reply{Code: rpcidem.Code(st.GetCode()), Body: body}, err //nolint:gosec // a code
}

// replay is the answer that was kept. A [connect.AnyResponse] can be made in package connect alone,
// so this one has another inside, for header and trailer, and gives its own message; that is all
// that a handler's answer is asked for.
type replay struct {
	*connect.Response[emptypb.Empty]
	message proto.Message
}

// Any returns the message.
func (r *replay) Any() any { return r.message }

// read makes the answer that was kept: a message of the type that the method has, or an error.
// schema is that of the method, if it is known.
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
