package amqpidem

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// headerText returns a value of AMQP as in [mqidem.Message].Headers: bytes and text unchanged,
// numbers in decimal, times in RFC 3339, tables and arrays as JSON.
func headerText(v any) []byte {
	switch v := v.(type) {
	case nil:
		return []byte{}
	case string:
		return []byte(v)
	case []byte:
		return v
	case time.Time:
		return []byte(v.UTC().Format(time.RFC3339))
	case amqp.Decimal:
		return []byte(strconv.FormatInt(int64(v.Value), 10) + "e-" + strconv.Itoa(int(v.Scale)))
	case amqp.Table, []any:
		b, err := json.Marshal(jsonValue(v))
		if err != nil { // for example NaN
			return []byte(fmt.Sprint(v))
		}
		return b
	}
	return []byte(fmt.Sprint(v))
}

// jsonValue returns a value for JSON.
func jsonValue(v any) any {
	switch v := v.(type) {
	case amqp.Table:
		m := make(map[string]any, len(v))
		for name, v := range v {
			m[name] = jsonValue(v)
		}
		return m
	case []any:
		s := make([]any, len(v))
		for i, v := range v {
			s[i] = jsonValue(v)
		}
		return s
	case []byte, time.Time, amqp.Decimal:
		return string(headerText(v))
	}
	return v
}

// typedValue is a value with its type, in JSON. One field is set, or none for a void.
type typedValue struct {
	T       *bool                 `json:"t,omitempty"`
	B       *uint8                `json:"B,omitempty"`
	I8      *int8                 `json:"b,omitempty"`
	I16     *int16                `json:"s,omitempty"`
	U16     *uint16               `json:"u,omitempty"`
	I32     *int32                `json:"I,omitempty"`
	U32     *uint32               `json:"i,omitempty"`
	I64     *int64                `json:"l,omitempty"`
	Float   *string               `json:"f,omitempty"` // JSON has no NaN
	Double  *string               `json:"d,omitempty"`
	Decimal *amqp.Decimal         `json:"D,omitempty"`
	Text    *[]byte               `json:"S,omitempty"` // any bytes
	Bytes   *[]byte               `json:"x,omitempty"`
	Time    *int64                `json:"T,omitempty"` // seconds since 1970
	Array   *[]typedValue         `json:"A,omitempty"`
	Table   map[string]typedValue `json:"F,omitempty"`
	IsTable bool                  `json:"table,omitempty"`
}

func wrapValue(v any) (t typedValue) {
	switch v := v.(type) {
	case bool:
		t.T = &v
	case uint8:
		t.B = &v
	case int8:
		t.I8 = &v
	case int16:
		t.I16 = &v
	case uint16:
		t.U16 = &v
	case int32:
		t.I32 = &v
	case uint32:
		t.U32 = &v
	case int64:
		t.I64 = &v
	case float32:
		t.Float = new(strconv.FormatFloat(float64(v), 'g', -1, 32))
	case float64:
		t.Double = new(strconv.FormatFloat(v, 'g', -1, 64))
	case amqp.Decimal:
		t.Decimal = &v
	case string:
		t.Text = new([]byte(v))
	case []byte:
		t.Bytes = &v
	case time.Time:
		t.Time = new(v.Unix())
	case []any:
		a := make([]typedValue, len(v))
		for i, v := range v {
			a[i] = wrapValue(v)
		}
		t.Array = &a
	case amqp.Table:
		t.Table, t.IsTable = make(map[string]typedValue, len(v)), true
		for name, v := range v {
			t.Table[name] = wrapValue(v)
		}
	}
	return t
}

func (t typedValue) value() any {
	switch {
	case t.T != nil:
		return *t.T
	case t.B != nil:
		return *t.B
	case t.I8 != nil:
		return *t.I8
	case t.I16 != nil:
		return *t.I16
	case t.U16 != nil:
		return *t.U16
	case t.I32 != nil:
		return *t.I32
	case t.U32 != nil:
		return *t.U32
	case t.I64 != nil:
		return *t.I64
	case t.Float != nil:
		f, _ := strconv.ParseFloat(*t.Float, 32)
		return float32(f)
	case t.Double != nil:
		f, _ := strconv.ParseFloat(*t.Double, 64)
		return f
	case t.Decimal != nil:
		return *t.Decimal
	case t.Text != nil:
		return string(*t.Text)
	case t.Bytes != nil:
		return *t.Bytes
	case t.Time != nil:
		return time.Unix(*t.Time, 0)
	case t.Array != nil:
		a := make([]any, len(*t.Array))
		for i, v := range *t.Array {
			a[i] = v.value()
		}
		return a
	case t.IsTable:
		table := make(amqp.Table, len(t.Table))
		for name, v := range t.Table {
			table[name] = v.value()
		}
		return table
	}
	return nil
}
