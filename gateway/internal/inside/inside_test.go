package inside_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/gateway/internal/inside"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// of returns the addresses of upstreams.
func of(t testing.TB, upstreams ...string) *inside.Addresses {
	t.Helper()
	var all []*url.URL
	for _, s := range upstreams {
		u, err := url.Parse(s)
		assert.NoError(t, err, "upstream")
		all = append(all, u)
	}
	return inside.Of(all)
}

// TestReferences tests which URLs become references to a path, and to which one.
func TestReferences(t *testing.T) {
	t.Parallel()
	same := "the same"
	for _, tt := range []struct{ upstream, target, want string }{
		{"http://127.0.0.1:9000", "http://127.0.0.1:9000/votes/", "/votes/"},
		// the scheme is that of X-Forwarded-Proto
		{"http://127.0.0.1:9000", "https://127.0.0.1:9000/votes/?a=1#b", "/votes/?a=1#b"},
		{"http://127.0.0.1:9000", "HTTP://user:pw@127.0.0.1:9000/x", "/x"},
		{"http://127.0.0.1:9000", "//127.0.0.1:9000/votes/", "/votes/"},
		{"http://127.0.0.1:9000", "http://127.0.0.1:9000", "/"},
		{"http://127.0.0.1:9000", "http://127.0.0.1:9000?a=1", "/?a=1"},
		{"http://127.0.0.1:9000", "http://127.0.0.1:9000#a", "/#a"},
		{"http://127.0.0.1:9000", "http://127.0.0.1:09000/x", "/x"},
		{"http://127.0.0.1:9000", "http://localhost:9000/x", "/x"},
		{"http://127.0.0.1:9000", "http://[::1]:9000/x", "/x"},
		{"http://127.0.0.1:9000", "http://0.0.0.0:9000/x", "/x"},
		{"http://127.0.0.1:9000", "http://127.0.0.1:9001/x", same},
		{"http://127.0.0.1:9000", "http://127.0.0.1/x", same},
		{"http://127.0.0.1:9000", "http://shop.example/x", same},
		{"http://127.0.0.1:9000", "/votes/", same},
		{"http://127.0.0.1:9000", "votes/", same},
		{"http://127.0.0.1:9000", "/go?to=http://127.0.0.1:9000/x", same},
		{"http://127.0.0.1:9000", "mailto:a@127.0.0.1:9000", same},
		{"http://127.0.0.1:9000", "http:/127.0.0.1:9000/x", "/x"},
		{"http://127.0.0.1:9000", "http:127.0.0.1:9000/x", "/x"},
		{"http://127.0.0.1:9000", "/127.0.0.1:9000/x", same},
		{"http://127.0.0.1:9000", "", same},
		// Spellings of one host.
		{"http://127.0.0.1:9000", "http://127.1:9000/x", "/x"},
		{"http://127.1:9000", "http://127.0.0.1:9000/x", "/x"},
		{"http://10.0.0.7:9000", "http://10.7:9000/x", "/x"},
		{"http://10.0.0.7:9000", "http://10.0.7:9000/x", "/x"},
		{"http://10.0.0.7:9000", "http://167772167:9000/x", "/x"},
		{"http://10.0.0.7:9000", "http://0xa000007:9000/x", "/x"},
		{"http://10.0.0.7:9000", "http://0XA.0x.00.07:9000/x", "/x"},
		{"http://10.0.0.7:9000", "http://012.0.0.7.:9000/x", "/x"},
		{"http://10.0.0.7:9000", "http://%31%30.0.0.7:9000/x", "/x"},
		{"http://10.0.0.7:9000", "http://[::ffff:10.0.0.7]:9000/x", "/x"},
		{"http://10.0.0.7:9000", "http://10.0.0.8:9000/x", same},
		{"http://10.0.0.7:9000", "http://10.256.7:9000/x", same},
		{"http://10.0.0.7:9000", "http://10.0.0.07.0:9000/x", same},
		{"http://10.0.0.7:9000", "http://010.0.0.7:9000/x", same},
		{"http://10.0.0.7:9000", "http://4462739463:9000/x", same},
		{"http://10.0.0.7:9000", "http://10.+0.0.7:9000/x", same},
		{"http://10.0.0.7:9000", "http://10..7:9000/x", same},
		{"http://[2001:db8::7]:9000", "http://[2001:DB8:0:0::07]:9000/x", "/x"},
		{"http://shop:9000", "http://sh%6Fp%2e:9000/x", "/x"},
		{"http://shop:9000", "http://shop%3a9000/x", same},
		{"http://bücher.example", "http://b%C3%BCcher.example/x", "/x"},
		{"http://bücher.example", "http://xn--bcher-kva.example/x", same}, // they are not compared
		{"http://shop", "http://shop/x", "/x"},
		{"http://shop", "http://SHOP./x", "/x"},
		{"http://shop", "http://shop:80/x", "/x"},
		{"http://shop", "https://shop/x", "/x"},
		{"http://shop", "https://shop:443/x", same},
		{"http://shop:80", "http://shop/x", "/x"},
		{"http://shop:80", "https://shop/x", same},
		{"https://shop", "https://shop:443/x", "/x"},
		{"http://shop", "http://shop.example/x", same},
		{"http://shop", "http://ashop/x", same},
		{"http://shop:9000/base/", "http://shop:9000/base/votes/", "/votes/"},
		{"http://shop:9000/base", "http://shop:9000/base", "/"},
		{"http://shop:9000/base", "http://shop:9000/base?a", "/?a"},
		{"http://shop:9000/base", "http://shop:9000/baseless/x", "/baseless/x"},
		{"http://shop:9000/base", "http://shop:9000/x", "/x"},
		// A reference that began with two slashes would lead to another host.
		{"http://shop:9000", "http://shop:9000//evil.example/x", "/.//evil.example/x"},
		{"http://shop:9000", `http://shop:9000/\evil.example/x`, `/./\evil.example/x`},
		{"http://shop:9000", "http://shop:9000/\t/evil.example/x", "/.//evil.example/x"},
		{"http://shop:9000", `http://shop:9000\/evil.example/x`, "/.//evil.example/x"},
		{"http://shop:9000/base", "http://shop:9000/base//evil.example/x", "/.//evil.example/x"},
		// As browsers read it.
		{"http://shop:9000", `\\shop:9000/x`, "/x"},
		{"http://shop:9000", `/\shop:9000/x`, "/x"},
		{"http://shop:9000", `http:\\shop:9000\x`, `/x`},
		{"http://shop:9000", "/\t/shop:9000/x", "/x"},
		{"http://shop:9000", "  http://shop:9000/x ", "/x"},
		{"http://shop:9000", "http:////shop:9000/x", "/x"},
	} {
		if tt.want == same {
			tt.want = tt.target
		}
		a := of(t, "http://other:1", tt.upstream)
		for name, around := range map[string][2]string{
			"Location": {}, "Content-Location": {}, "Refresh": {`5; url="`, `"`}, "Link": {`<https://far.example/>; title="<http://shop:9000/a,>\"", <`, `>; rel="next"`},
		} {
			h := http.Header{name: {around[0] + tt.target + around[1]}}
			a.Hide(h, inside.Client{Scheme: "https", Host: "shop.example:8080"})
			assert.Equal(t, h.Get(name), around[0]+tt.want+around[1], "%s before %s", name, tt.upstream)
		}
	}
}

// TestFieldsThatAreFollowed tests the forms of the fields, and those that are passed on unchanged.
func TestFieldsThatAreFollowed(t *testing.T) {
	t.Parallel()
	a := of(t, "http://app.inside:9000")
	for _, tt := range []struct{ name, value, want string }{
		{"Refresh", "0;URL=http://app.inside:9000/x", "0;URL=/x"},
		{"Refresh", "0; url = 'http://app.inside:9000/x'", "0; url = '/x'"},
		{"Refresh", "0, http://app.inside:9000/x", "0, /x"},
		{"Refresh", "0; http://app.inside:9000/x", "0; /x"},
		{"Refresh", "0 url=http://app.inside:9000/x", "0 url=/x"},
		{"Refresh", " 0 ; http://app.inside:9000/x", " 0 ; /x"},
		{"Refresh", "0\t'http://app.inside:9000/x'", "0\t'/x'"},
		{"Refresh", "0 ", "0 "},
		{"Refresh", "5", "5"},
		{"Refresh", `5; url="`, `5; url="`},
		{"Refresh", "5;", "5;"},
		{"Refresh", "5; url", "5; url"},
		{"Link", `<http://app.inside:9000/a>; rel=next, <//app.inside:9000/b>; rel="prev"; anchor = "http://app.inside:9000/c"`, `</a>; rel=next, </b>; rel="prev"; anchor = "/c"`},
		{"Link", `</a>; title="http://app.inside:9000/c"`, `</a>; title="http://app.inside:9000/c"`},
		{"Link", `</a>; anchor=http://app.inside:9000/c; rel=next, </b>; ANCHOR = http://app.inside:9000/d`, `</a>; anchor=/c; rel=next, </b>; ANCHOR = /d`},
		{"Link", `</a>; title=http://app.inside:9000/c`, `</a>; title=http://app.inside:9000/c`},
		{"Www-Authenticate", `Bearer realm="http://app.inside:9000/", resource_metadata="http://app.inside:9000/.well-known/oauth-protected-resource/mcp", scope="a"`, `Bearer realm="http://app.inside:9000/", resource_metadata="https://shop.example:8080/.well-known/oauth-protected-resource/mcp", scope="a"`},
		{"Www-Authenticate", `Bearer Resource_Metadata = http://app.inside:9000/m, Basic realm="<http://app.inside:9000/>"`, `Bearer Resource_Metadata = https://shop.example:8080/m, Basic realm="<http://app.inside:9000/>"`},
		{"Www-Authenticate", `Bearer resource_metadata="https://shop.example/m"`, `Bearer resource_metadata="https://shop.example/m"`},
		{"Link", `<http://app.inside:9000/a`, `<http://app.inside:9000/a`},
		{"Set-Cookie", "sid=1; Path=/; Domain=app.inside; Secure", "sid=1; Path=/; Secure"},
		{"Set-Cookie", "sid=1;domain=.APP.inside", "sid=1"},
		{"Set-Cookie", "sid=1; Domain=example; HttpOnly", "sid=1; Domain=example; HttpOnly"},
		{"Set-Cookie", "Domain=app.inside", "Domain=app.inside"},
		{"Set-Cookie", "sid=1; Domain=inside", "sid=1; Domain=inside"},
		{"Set-Cookie", "sid=1; Domain", "sid=1; Domain"},
		{"Alt-Svc", `h2="app.inside:9000"; ma=60`, ""},
		{"Alt-Svc", `h3=":443"; ma=60, h2="far.example:443"`, `h3=":443"; ma=60, h2="far.example:443"`},
		{"X-Debug", "http://app.inside:9000/x", "http://app.inside:9000/x"},
	} {
		h := http.Header{tt.name: {tt.value}}
		a.Hide(h, inside.Client{Scheme: "https", Host: "shop.example:8080"})
		assert.Equal(t, h.Get(tt.name), tt.want, "%s: %s", tt.name, tt.value)
	}
	several := http.Header{"Link": {"<http://app.inside:9000/a>", "<http://app.inside:9000/b>"}, "Set-Cookie": {"a=1; Domain=app.inside", "b=2"}}
	a.Hide(several, inside.Client{Host: "shop.example"})
	assert.Equal(t, several, http.Header{"Link": {"</a>", "</b>"}, "Set-Cookie": {"a=1", "b=2"}}, "several lines")
	// The upstream may have the gateway's own name, at another port.
	for _, client := range []string{"app.inside", "app.inside:8080", "www.app.inside", "APP.INSIDE"} {
		h := http.Header{"Set-Cookie": {"sid=1; Domain=app.inside"}}
		a.Hide(h, inside.Client{Host: client})
		assert.Equal(t, h.Get("Set-Cookie"), "sid=1; Domain=app.inside", "the cookie of a client that calls %s", client)
	}
}

// TestPathsOfOneHost tests upstreams at one authority: the one whose path is the longest that a URL
// begins with is meant, in any order.
func TestPathsOfOneHost(t *testing.T) {
	t.Parallel()
	upstreams := []string{"http://shop:9000", "http://shop:9000/a", "http://shop:9000/a/b/", "https://shop:9000/a/bc", "http://shop:9001/a/b/c"}
	for range upstreams {
		upstreams = append(upstreams[1:], upstreams[0])
		a := of(t, upstreams...)
		for target, want := range map[string]string{
			"http://shop:9000/a/b/c?d":  "/c?d",
			"http://shop:9000/a/b#x":    "/#x",
			"http://shop:9000/a/bc/d":   "/d",
			"http://shop:9000/a/bcd":    "/bcd",
			"http://shop:9000/a":        "/",
			"http://shop:9000/ab":       "/ab",
			"http://shop:9000/":         "/",
			"http://shop:9000?/a/b":     "/?/a/b",
			"http://shop:9001/a/b":      "/a/b",
			"http://shop:9000/a/b//x/y": "/.//x/y",
		} {
			h := http.Header{"Location": {target}}
			a.Hide(h, inside.Client{})
			assert.Equal(t, h.Get("Location"), want, "%s with %v", target, upstreams)
		}
	}
	client := http.Header{"Www-Authenticate": {`Bearer resource_metadata="http://shop:9000/a/m"`}}
	of(t, upstreams...).Hide(client, inside.Client{})
	assert.Equal(t, client.Get("Www-Authenticate"), `Bearer resource_metadata="/m"`, "for a client that names no host")
}

// FuzzHide tests that no client ends at an upstream, and that a URL of an upstream never becomes
// one of a third host.
func FuzzHide(f *testing.F) {
	for _, target := range []string{
		"http://app.inside:9000/x", "//app.inside:9000//evil.example", `/\app.inside:9000`, "5; url='http://app.inside:9000/'", `<http://app.inside:9000/>; anchor="//app.inside:9000"`,
		"https://a@app.inside:9000?x#y", "http://app.inside:9000\t/\t/evil.example", "sid=1; Domain=.app.inside", `http://app.inside:9000/base//evil.example`,
		"A://App.inside:9000", "http:/app%2einside:9000/x", "0 url=http://app.inside:9000", `Bearer resource_metadata="http://app.inside:9000/base/m"`, "</a>; anchor=http://app.inside:9000/b;c",
	} {
		f.Add(target)
	}
	base, err := url.Parse("https://shop.example/orders")
	assert.NoError(f, err, "base")
	// follow returns the host at which a client ends, one that reads like Go's or one like
	// browsers; ok is false if the target is no URL of HTTP.
	follow := func(target string, browser bool) (host string, ok bool) {
		if browser {
			target = strings.ReplaceAll(strings.ReplaceAll(target, "\t", ""), `\`, "/")
		}
		u, err := base.Parse(strings.Trim(target, " "))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" {
			return "", false
		}
		return strings.ToLower(u.Host), true
	}
	f.Fuzz(func(t *testing.T, target string) {
		a := of(t, "http://app.inside:9000/base")
		for _, name := range []string{"Refresh", "Link", "Set-Cookie", "Alt-Svc", "Www-Authenticate"} {
			// no panic, and nothing is hidden twice
			h := http.Header{name: {target}}
			a.Hide(h, inside.Client{Scheme: "https", Host: "shop.example"})
			once := h.Get(name)
			a.Hide(h, inside.Client{Scheme: "https", Host: "shop.example"})
			assert.Equal(t, h.Get(name), once, "%s, hidden again", name)
		}
		h := http.Header{"Location": {target}}
		a.Hide(h, inside.Client{Scheme: "https", Host: "shop.example"})
		for _, browser := range []bool{false, true} {
			before, ok := follow(target, browser)
			after, ok2 := follow(h.Get("Location"), browser)
			if !ok || !ok2 {
				continue
			}
			assert.NotEqual(t, after, "app.inside:9000", "the host of %q", h.Get("Location"))
			assert.True(t, after == before || after == "shop.example", "%q leads to %s, and %q to %s", target, before, h.Get("Location"), after)
		}
	})
}
