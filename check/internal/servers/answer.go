package servers

import (
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
)

// storedAnswer is the answer to an order, as it is stored.
type storedAnswer struct {
	status int
	header http.Header
	body   string
}

// receiptFor returns the answer to o, the nth order of the shop.
func receiptFor(o *order, n int64) storedAnswer {
	id := fmt.Sprintf("%s_%d", o.route[:3], n)
	body := fmt.Sprintf(`{"id":%q,"amount":%d,"status":"succeeded"}`+"\n", id, o.amount)
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(body))
	return storedAnswer{http.StatusCreated, http.Header{
		"Content-Type": {"application/json"},
		"Location":     {"/" + o.route + "/" + id},
		"Etag":         {fmt.Sprintf(`"%x"`, sum.Sum64())},
		"Set-Cookie":   {"basket=" + id + "; Path=/; HttpOnly"},
	}, body}
}

// writeTo writes a, with more fields, or with others in place of its own.
func (a storedAnswer) writeTo(w http.ResponseWriter, more http.Header) {
	maps.Copy(w.Header(), a.header)
	maps.Copy(w.Header(), more)
	w.WriteHeader(a.status)
	fmt.Fprint(w, a.body)
}
