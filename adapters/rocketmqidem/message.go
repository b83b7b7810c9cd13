package rocketmqidem

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/retrysafe/retrysafe/mqidem"
)

// Properties of this package.
const (
	propHeaders   = "retrysafe-headers"   // headers that no property can hold, as JSON
	propNoID      = "retrysafe-no-id"     // the message has no id, so that the client's is not one
	propEmpty     = "retrysafe-empty"     // the body is empty, although the broker has one byte
	propDue       = "retrysafe-due"       // when a later try is due, in milliseconds since 1970
	propPublished = "retrysafe-published" // when the broker got the message that this is a copy of
)

// Names of RocketMQ. A header of such a name would change what the broker or a client does.
var systemProperties = func() map[string]bool {
	names := map[string]bool{}
	for _, name := range strings.Fields("WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET BUYER_ID " +
		"ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION TRACE_ON UNIQ_KEY EXTEND_UNIQ_INFO " +
		"MAX_RECONSUME_TIMES CONSUME_START_TIME INNER_NUM INNER_BASE DUP_INFO CHECK_IMMUNITY_TIME_IN_SECONDS TRAN_PREPARED_QUEUE_OFFSET " +
		"__transactionId__ TRANSACTION_CHECK_TIMES INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER " +
		"MSG_TYPE POP_CK POP_CK_OFFSET 1ST_POP_TIME __SHARDINGKEY SHARDING_KEY PROPERTY_FORWARD_QUEUE_ID REDIRECT INNER_MULTI_DISPATCH " +
		"INNER_MULTI_QUEUE_OFFSET TRACE_CONTEXT TIMER_DELAY_SEC TIMER_DELIVER_MS __BORNHOST BORN_TIMESTAMP TIMER_ENQUEUE_MS " +
		"TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL TIMER_DELAY_MS __CRC32# DLQ_ORIGIN_TOPIC " +
		"DLQ_ORIGIN_MESSAGE_ID") {
		names[name] = true
	}
	return names
}()

// isOwnProperty reports whether a property belongs to this package or to RocketMQ, and is no
// header.
func isOwnProperty(name string) bool {
	switch name {
	case mqidem.HeaderID, mqidem.HeaderKey, mqidem.HeaderContentType, mqidem.HeaderTries, propHeaders, propNoID, propEmpty, propDue, propPublished:
		return true
	}
	return systemProperties[name] || strings.HasPrefix(name, "__RMQ.")
}

// isPlain reports whether a property can hold a text: it is UTF-8, is not empty, and has neither of
// the characters that RocketMQ separates properties by.
func isPlain(s string) bool {
	return s != "" && utf8.ValidString(s) && !strings.ContainsAny(s, "\x00\x01\x02")
}

// messageOf returns the message that the broker has delivered.
func messageOf(r *primitive.MessageExt) *mqidem.Message {
	props := r.GetProperties()
	m := &mqidem.Message{
		Source: r.Topic, Headers: map[string][]byte{}, Body: decompressed(r), Deliveries: 1 + int(max(0, r.ReconsumeTimes)), Published: time.UnixMilli(r.StoreTimestamp),
	}
	for name, value := range props {
		if !isOwnProperty(name) {
			m.Headers[name] = []byte(value)
		}
	}
	for _, h := range unpackHeaders(props[propHeaders]) {
		if h.Field {
			props[string(h.Name)] = string(h.Value)
		} else {
			m.Headers[string(h.Name)] = h.Value
		}
	}
	m.ID, m.ContentType = props[mqidem.HeaderID], props[mqidem.HeaderContentType]
	m.Key = cmp.Or(props[mqidem.HeaderKey], props[primitive.PropertyShardingKey])
	if m.ID == "" && props[propNoID] == "" {
		m.ID = props[primitive.PropertyUniqueClientMessageIdKeyIndex]
	}
	if m.ID != "" && m.Header(primitive.PropertyKeys) == m.ID { // see propertiesOf
		delete(m.Headers, primitive.PropertyKeys)
	}
	if props[propEmpty] != "" {
		m.Body = nil
	}
	m.Source = cmp.Or(props[primitive.PropertyRetryTopic], m.Source)
	if n, err := strconv.Atoi(props[mqidem.HeaderTries]); err == nil && n > 0 {
		m.Deliveries += n
	}
	if ms, err := strconv.ParseInt(props[propPublished], 10, 64); err == nil {
		m.Published = time.UnixMilli(ms)
	}
	return m
}

// propertiesOf is the reverse of messageOf.
func propertiesOf(m *mqidem.Message) map[string]string {
	props := map[string]string{}
	var packed []packedHeader
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		if value := string(m.Headers[name]); isPlain(name) && isPlain(value) && !isOwnProperty(name) {
			props[name] = value
		} else {
			packed = append(packed, packedHeader{Name: []byte(name), Value: []byte(value)})
		}
	}
	for _, field := range [][2]string{{mqidem.HeaderID, m.ID}, {mqidem.HeaderContentType, m.ContentType}, {mqidem.HeaderKey, m.Key}} {
		switch name, value := field[0], field[1]; {
		case value == "":
		case !isPlain(value):
			packed = append(packed, packedHeader{Name: []byte(name), Value: []byte(value), Field: true})
		case name == mqidem.HeaderKey:
			props[primitive.PropertyShardingKey] = value
		default:
			props[name] = value
		}
	}
	if m.ID == "" {
		props[propNoID] = "1"
	} else if _, given := m.Headers[primitive.PropertyKeys]; !given && isPlain(m.ID) && len(m.ID) <= longestKey && !strings.Contains(m.ID, primitive.PropertyKeySeparator) {
		props[primitive.PropertyKeys] = m.ID
	}
	if len(packed) > 0 {
		b, _ := json.Marshal(packed) // cannot fail
		props[propHeaders] = string(b)
	}
	return props
}

// longestKey is the longest id that is a key of the message too, by which operators find it.
const longestKey = 128

// packedHeader is a header, or a field of the message, that no property can hold.
type packedHeader struct {
	Name  []byte `json:"n"`
	Value []byte `json:"v"`
	Field bool   `json:"f,omitempty"`
}

func unpackHeaders(s string) (list []packedHeader) {
	if s == "" || json.Unmarshal([]byte(s), &list) != nil {
		return nil
	}
	return list
}
