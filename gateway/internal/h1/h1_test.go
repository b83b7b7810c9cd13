package h1_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/gateway/internal/h1"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func TestReadField(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"x-two:  a b \t\r\nnext":  `"X-Two" "a b" "next" true`,
		"X:\r\n":                  `"X" "" "" true`,
		"X-Two:\ta\t\r\n":         `"X-Two" "a" "" true`,
		"ETag: a\r\n":             `"Etag" "a" "" true`,
		"x-TWO-3a: a\r\n":         `"X-Two-3a" "a" "" true`,
		"Www-authenticate: a\r\n": `"Www-Authenticate" "a" "" true`,
		"X : a\r\n":               `"" "" "" false`,
		": a\r\n":                 `"" "" "" false`,
		" folded\r\n":             `"" "" "" false`,
		"X\r\n":                   `"" "" "" false`,
		"X: caf\xc3\xa9\r\n":      `"X" "café" "" true`,
	} {
		name, value, rest, ok := h1.ReadField(line)
		assert.Equal(t, fmt.Sprintf("%q %q %q %v", name, value, rest, ok), want, "%q", line)
	}
	_, _, _, ok := h1.ReadField("X: a\rb\r\n")
	assert.Equal(t, ok, false, "a control character in a value")
}

// TestAddField tests that values of one name never share memory with those of another.
func TestAddField(t *testing.T) {
	t.Parallel()
	h, values := http.Header{}, make([]string, 0, 3)
	for _, f := range []string{"A", "B", "A"} {
		values = h1.AddField(h, f, "of "+f, values)
	}
	h["A"] = append(h["A"], "more")
	assert.Equal(t, fmt.Sprint(h), "map[A:[of A of A more] B:[of B]]", "fields")
}

// TestPeek tests that a look at a connection sees that it is quiet, that bytes have come, and that
// its other side has hung up, and takes no byte away.
func TestPeek(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Log("connections are not looked at here")
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	assert.NoError(t, err, "dial")
	defer near.Close()
	far, err := l.Accept()
	assert.NoError(t, err, "accept")
	defer far.Close()
	p := h1.NewPeeker(near)
	assert.True(t, p.Quiet() && !h1.HungUp(near), "an idle connection")
	until := func(what string, done func() bool) {
		for end := time.Now().Add(time.Minute); !done(); <-time.After(time.Millisecond) {
			assert.True(t, time.Now().Before(end), "%s", what)
		}
	}
	_, err = io.WriteString(far, "x")
	assert.NoError(t, err, "write")
	until("a byte", func() bool { return !p.Quiet() })
	assert.True(t, !h1.HungUp(near), "a byte is no end")
	one := make([]byte, 1)
	_, err = io.ReadFull(near, one)
	assert.Equal(t, fmt.Sprint(string(one), err), "x<nil>", "the byte is still there")
	_ = far.Close()
	until("the end", func() bool { return h1.HungUp(near) && !p.Quiet() })
}
