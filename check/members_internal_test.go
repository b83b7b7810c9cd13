package check

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestAlterMember: one member has another value that is likely to be valid, and the others keep
// theirs.
func TestAlterMember(t *testing.T) {
	t.Parallel()
	const kind = "application/json"
	for _, c := range []struct{ body, name, want string }{
		{`{"amount":500,"to":"ann"}`, "amount", `{"amount":600,"to":"ann"}`},
		{`{"amount":500,"to":"ann"}`, "to", `{"amount":500,"to":"annx"}`},
		{`{"currency":"EUR"}`, "currency", `{"currency":"USD"}`},
		{`{"currency":"USD"}`, "currency", `{"currency":"EUR"}`},
		{`{"country":"DE"}`, "country", `{"country":"US"}`},
		{`{"day":"2026-01-31"}`, "day", `{"day":"2026-01-30"}`},
		{`{"day":"2026-02-01"}`, "day", `{"day":"2026-02-02"}`},
		{`{"express":true}`, "express", `{"express":false}`},
		{`{"items":[{"sku":"tea","n":2}]}`, "items", `{"items":[{"n":3,"sku":"tea"}]}`},
		{`{"a":null}`, "a", ""},
		{`{"a":""}`, "a", ""},
		{`{"a":{}}`, "a", ""},
		{`[1]`, "a", ""},
	} {
		got, ok := alterMember([]byte(c.body), kind, c.name)
		assert.Equal(t, ok, c.want != "", "%s can be changed", c.body)
		assert.Equal(t, string(got), c.want, "%s with another %s", c.body, c.name)
	}
	got, ok := alterMember([]byte("amount=500&to=ann"), "application/x-www-form-urlencoded", "to")
	assert.True(t, ok && string(got) == "amount=500&to=annx", "a form: %s", got)
}

// TestMembersBeside: the member that the other body changes is not changed once more, and no more
// than four are.
func TestMembersBeside(t *testing.T) {
	t.Parallel()
	const kind = "application/json"
	names := func(body, other string) string {
		return strings.Join(membersBeside([]byte(body), []byte(other), kind), " ")
	}
	assert.Equal(t, names(`{"to":"a","amount":1}`, `{"to":"a","amount":2}`), "to", "beside the amount")
	assert.Equal(t, names(`{"to":"a","amount":1}`, `{"to":"b","amount":2}`), "to amount", "both changed at once")
	assert.Equal(t, names(`{"f":1,"e":1,"d":1,"c":1,"b":1,"a":1}`, `{"f":2,"e":1,"d":1,"c":1,"b":1,"a":1}`), "e d c b", "at most four")
	assert.Equal(t, names(`[]`, `[1]`), "", "no object")
}
