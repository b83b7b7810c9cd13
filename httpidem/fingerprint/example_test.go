package fingerprint_test

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
)

// A double click: the form is sent twice, with another time and another order of its keys.
func ExampleRule() {
	rule, err := fingerprint.Rule{Ignore: fingerprint.TimeFields()}.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	one, err := rule.Sum("application/json", "shop=7", []byte(`{"item":"tea","amount":10,"timestamp":1700000000123}`))
	two, err2 := rule.Sum("application/json", "shop=7", []byte(`{"timestamp":1700000000981,"amount":10.00,"item":"tea"}`))
	other, err3 := rule.Sum("application/json", "shop=7", []byte(`{"timestamp":1700000000981,"amount":11,"item":"tea"}`))
	if err := errors.Join(err, err2, err3); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the same click:", bytes.Equal(one, two))
	fmt.Println("another amount:", bytes.Equal(one, other))
	// Output:
	// the same click: true
	// another amount: false
}

// One vote for each poll: only the poll counts, whatever else is sent. A request without it is
// refused.
func ExampleRule_only() {
	rule, err := fingerprint.Rule{Only: []string{"$.poll"}}.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	yes, err := rule.Sum("application/json", "", []byte(`{"poll":12,"answer":"yes"}`))
	no, err2 := rule.Sum("application/json", "", []byte(`{"poll":12,"answer":"no"}`))
	fmt.Println("one vote:", bytes.Equal(yes, no), err, err2)
	_, err = rule.Sum("application/json", "", []byte(`{"answer":"no"}`))
	fmt.Println(errors.Is(err, fingerprint.ErrNothingKept))
	// Output:
	// one vote: true <nil> <nil>
	// true
}

// ExampleRule_Legacy shares keys with a program that makes them in an older form.
func ExampleRule_Legacy() {
	key, err := fingerprint.Rule{Ignore: fingerprint.TimeFields()}.Legacy("dedup", "42", "createOrder", "shop=7", []byte(`{"item":"tea","ts":1}`))
	fmt.Println(key, err)
	// Output: dedup:U=42M=createOrderP=ab94e0f737acbaa2c07ef2efec17f76e <nil>
}

// A cache buster in a query that is otherwise compared as it was sent.
func ExampleCompiled_LeaveOut() {
	rule, err := fingerprint.Rule{Ignore: []string{"_t"}}.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rule.LeaveOut("_t=1700000000&amount=5"))
	fmt.Println(rule.LeaveOut("amount=5&_t=1700000009"))
	// Output:
	// amount=5
	// amount=5
}
