package grpcidem

import (
	"errors"
	"fmt"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/retrysafe/retrysafe/rpcidem"
)

// marshal returns the bytes of a message. They are the same for equal messages of one program,
// since retries are compared by them.
func marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("grpcidem: a message of type %T is no protocol buffer", v)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// replyOf returns the stored form of a method's answer.
func replyOf(resp any, st *status.Status) (*rpcidem.Reply, error) {
	if st != nil {
		body, err := proto.Marshal(st.Proto())
		return &rpcidem.Reply{Code: rpcidem.Code(st.Code()), Body: body}, err
	}
	m, ok := resp.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("grpcidem: a message of type %T is no protocol buffer", resp)
	}
	body, err := proto.Marshal(m)
	return &rpcidem.Reply{Type: string(m.ProtoReflect().Descriptor().FullName()), Body: body}, err
}

// read returns a stored answer: a message, or the error of a status.
func read(r *rpcidem.Reply) (any, error) {
	if r.Code != rpcidem.OK {
		var s spb.Status
		if err := proto.Unmarshal(r.Body, &s); err != nil || rpcidem.Code(s.Code) != r.Code { //nolint:gosec // codes are small
			return nil, asStatus(rpcidem.NewRefusal("ANSWER_NOT_READABLE", errors.New("grpcidem: the kept status cannot be read")))
		}
		return nil, status.ErrorProto(&s)
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(r.Type))
	if err == nil {
		m := kind.New().Interface()
		if err = proto.Unmarshal(r.Body, m); err == nil {
			return m, nil
		}
	}
	return nil, asStatus(rpcidem.NewRefusal("ANSWER_NOT_READABLE", err))
}
