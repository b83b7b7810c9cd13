package input_test

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/input"
)

// files are the files of curl commands in tests.
var files = map[string]string{
	"order.json": "{\r\n  \"amount\": 500\n}\n",
	"raw":        "a\xff\nb",
	"to do.txt":  "a b&c",
}

var variables = map[string]string{"TOKEN": "s3cret", "EMPTY": ""}

// shell has files and variables.
var shell = input.Shell{
	ReadFile: func(name string) ([]byte, error) {
		if text, ok := files[name]; ok {
			return []byte(text), nil
		}
		return nil, fs.ErrNotExist
	},
	LookupEnv: func(name string) (string, bool) { value, ok := variables[name]; return value, ok },
}

// commands are sent by curl itself and by what Curl reads. BASE is the server's URL.
var commands = []string{
	"curl BASE/orders",
	"curl BASE",
	"$ curl -X POST BASE/orders \\\n  -H 'Content-Type: application/json' \\\n  -d '{\"amount\": 500}'",
	"curl -X POST \\\r\n  BASE/orders \\\r\n  -d a=b",
	"curl BASE/orders -d amount=500 -d currency=eur --data-raw @no -d ''",
	"curl -d '' BASE",
	"curl BASE/orders -XPUT -dname=a -H'X-A:b' -uuser:pass",
	"curl BASE/a?b=c -d @order.json",
	"curl BASE/a --data-binary @order.json -H 'Content-Type: application/json'",
	"curl BASE/a --data-binary @raw -H 'Content-Type:'",
	"curl BASE/a --json @order.json",
	"curl BASE/a --json '{\"a\":1' --json ',\"b\":2}'",
	"curl BASE/a --json '{}' -H 'Content-Type: application/vnd.api+json' -H 'accept: */*'",
	"curl BASE/a --data-urlencode 'a=b&c/é*~' --data-urlencode '=d e' --data-urlencode 'f+g' --data-urlencode 'h@to do.txt' --data-urlencode '@to do.txt'",
	"curl -G BASE/find -d a=1 -d 'b=2'",
	"curl -G 'BASE/find?x=y' -d a=1",
	"curl -G BASE/find -d 'a#b'",
	"curl 'BASE/find?x=y' --url-query 'a=b c' --url-query '+d=%20e' -d body",
	"curl -I BASE/a",
	"curl --url BASE/a -X DELETE",
	"curl BASE/a -T order.json",
	"curl BASE/a/ --upload-file 'to do.txt'",
	"curl BASE/a -b 'a=b; c=d' --cookie e=f",
	"curl BASE/a -b a=b -H 'Cookie: g=h'",
	"curl BASE/a -A agent -e http://from.example/",
	"curl BASE/a -A agent -H 'User-Agent: mine' -A other",
	"curl BASE/a -H 'X-Empty;' -H 'X-Gone:' -H 'X-Twice: 1' -H 'X-Twice: 2' -H 'X-Colon: a:b:c '",
	"curl BASE/a -u 'user:pa:ss' -H 'Authorization: Bearer x'",
	"curl BASE/a -u sk_test_1:",
	"curl BASE/a --oauth2-bearer \"$TOKEN\"",
	"curl BASE/a -H \"Authorization: Bearer ${TOKEN}x\" -H X-Empty:$EMPTY -d \"$EMPTY\"",
	`curl BASE/a -d "a \"b\" \$c \\ \n \` + "\n" + `d $. $"`,
	`curl BASE/a -d $'it\'s\ta\x41\101\u00e9\U0001F600\n\\ \z "q" \0101'`,
	`curl BASE/a -d a\ b\"\'\$c -d 'x'"y"z`,
	"curl BASE/a -d 'two\nlines' # and a comment",
	"# first a comment\n\ncurl BASE/a#part -d a#b",
	"TOKEN=other curl BASE/a",
	"curl -sSkL -i --compressed --http1.1 --no-keepalive -m 10 -o /dev/null --retry 3 BASE/a",
	"curl -sd a=b BASE/a;",
	"curl BASE/a -d a | cat",
	"curl BASE/a%20b?q=%7B1%7D -d a",
	"curl -- BASE/a",
	"curl BASE/a -H 'Host: other.example' -X PATCH -d {}",
}

// seen is what a server gets, without what curl adds by itself.
type seen struct {
	Method, URI, Host, Body string
	Header                  http.Header
}

func seenRequest(r *http.Request) seen {
	body, _ := io.ReadAll(r.Body)
	h := r.Header.Clone()
	for _, name := range []string{"Accept-Encoding", "Content-Length", "Connection", "Expect"} {
		h.Del(name)
	}
	if strings.HasPrefix(h.Get("User-Agent"), "curl/") {
		h.Del("User-Agent")
	}
	if h.Get("Accept") == "*/*" {
		h.Del("Accept")
	}
	return seen{r.Method, r.RequestURI, r.Host, string(body), h}
}

func TestCurlSendsTheSame(t *testing.T) {
	t.Parallel()
	got := make(chan seen, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- seenRequest(r) }))
	defer server.Close()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range commands {
		line = strings.ReplaceAll(line, "BASE", server.URL)
		// bash reads what a person pastes, and curl may write to no terminal
		script := strings.TrimPrefix(strings.ReplaceAll(line, "\\\r\n", "\\\n"), "$ ")
		cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "TOKEN="+variables["TOKEN"], "EMPTY=", "LC_ALL=C.UTF-8")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		want := <-got
		r, err := shell.Curl(line)
		if err != nil {
			t.Errorf("%s\n  %v", line, err)
			continue
		}
		sendRequest(t, r)
		have := <-got
		// spaces of a form have two forms, and so have lists of cookies
		want.Body = strings.ReplaceAll(want.Body, "%20", "+")
		have.Body = strings.ReplaceAll(have.Body, "%20", "+")
		if cookies := want.Header["Cookie"]; cookies != nil {
			cookies[0] = strings.ReplaceAll(cookies[0], "d;e", "d; e")
		}
		if !reflect.DeepEqual(have, want) {
			t.Errorf("%s\n  curl sends %+v\n  we send    %+v", line, want, have)
		}
	}
}

// sendRequest sends r as the checker does.
func sendRequest(t *testing.T, r check.Request) {
	t.Helper()
	out, err := http.NewRequestWithContext(t.Context(), r.Method, r.URL, strings.NewReader(string(r.Body)))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(out.Header, r.Header)
	if host := r.Header.Get("Host"); host != "" {
		out.Host = host
	}
	if r.Header["User-Agent"] == nil {
		out.Header.Set("User-Agent", "")
	}
	response, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
}

func TestCurlOfABrowser(t *testing.T) {
	t.Parallel()
	r, err := input.Curl(`curl 'https://shop.example/orders?a=b' \
  -H 'authority: shop.example' \
  -H 'accept-encoding: gzip, deflate, br' \
  -H 'content-length: 17' \
  -H 'sec-ch-ua: "Chromium";v="141"' \
  --data-raw $'{"note":"it\'s 5\u0021"}' \
  --compressed --insecure`)
	if err != nil {
		t.Fatal(err)
	}
	want := check.Request{
		Method: "POST", URL: "https://shop.example/orders?a=b", Body: []byte(`{"note":"it's 5!"}`),
		Header: http.Header{
			"Authority": {"shop.example"}, "Sec-Ch-Ua": {`"Chromium";v="141"`},
			"Content-Type": {"application/x-www-form-urlencoded"},
		},
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
	r, err = input.Curl("curl https://user:p%40ss@shop.example/{{unique}}#x -X POST -d '{{unique}}'")
	if err != nil || r.URL != "https://shop.example/{{unique}}" || string(r.Body) != "{{unique}}" ||
		r.Header.Get("Authorization") != "Basic dXNlcjpwQHNz" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestCurlReadsItsOwnReports(t *testing.T) {
	t.Parallel()
	r := check.Request{
		Method: "PUT", URL: "https://shop.example/a?b=c&d=e", Body: []byte("it's\n\"quoted\" $HOME"),
		Header: http.Header{"Authorization": {"s3cret"}, "X-Empty": {""}, "X-A": {"b 'c'"}, "Content-Type": {"text/plain"}},
	}
	again, err := input.Shell{LookupEnv: func(name string) (string, bool) { return "s3cret", name == "AUTHORIZATION" }}.Curl(r.Curl())
	if err != nil || !reflect.DeepEqual(again, r) {
		t.Errorf("%s\n%+v, %v", r.Curl(), again, err)
	}
}

func TestCurlNamesThePlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, want string }{
		{"", "line 1, column 1: it has to start with curl"},
		{"wget http://a.example", "line 1, column 1: it has to start with curl"},
		{"curl", "it has no URL"},
		{"curl http://a.example --frob x", "line 1, column 23: the option --frob of curl is not known"},
		{"curl \\\n  http://a.example \\\n  -sW", "line 3, column 3: the option -W"},
		{"curl http://a.example -d", "line 1, column 23: the option -d needs a value"},
		{"curl http://a.example -d 'é' 'open", "line 1, column 30: the quote ' is not closed"},
		{`curl http://a.example -d "open`, `column 26: the quote " is not closed`},
		{`curl http://a.example -d $'open\'`, `column 26: the quote $' is not closed`},
		{"curl http://a.example/?a=1&b=2", "column 27: & ends the command"},
		{"curl http://a.example; ls", "column 24: ; ends the command"},
		{"curl http://a.example\n-d a=b", "line 2, column 1: a second command starts here"},
		{"curl http://a.example > out", "column 23: > writes"},
		{"curl http://a.example -d \"$(cat x)\"", "column 27: $( runs"},
		{"curl http://a.example -d `cat x`", "column 26: ` runs"},
		{"curl http://a.example -d \"`cat x`\"", "column 27: ` runs"},
		{"curl http://a.example -d $NOT_SET", "column 26: the variable $NOT_SET is not set"},
		{"curl http://a.example -d ${A:-b}", "column 26: only variables"},
		{`curl http://a.example -d "costs $5"`, "column 33: a shell reads $5"},
		{"curl http://a.example -d $'a\\0b'", "character 0"},
		{"curl http://a.example -d 'a\x00b'", "column 28: a character 0"},
		{`curl ^"http://a.example^" ^`, "cmd.exe"},
		{"curl http://a.example http://b.example", "column 23: a second URL"},
		{"curl ''", "column 6: the URL is empty"},
		{"curl ftp://a.example", "column 6: the URL needs http:// or https://"},
		{"curl http://a.exa%mple", "column 6: the URL: invalid"},
		{"curl http://a.example -X 'A B'", `column 26: the option -X: "A B" is no method`},
		{"curl http://a.example -H 'a b: c'", `column 26: the option -H: "a b" is no name`},
		{"curl http://a.example -H $'a: b\\nc'", "column 26: the option -H: the field a has a control character"},
		{"curl http://a.example -H abc", "column 26: the option -H: write it as"},
		{"curl http://a.example -H @file", "a file of header fields"},
		{"curl http://a.example -F a=b", "column 23: the option -F: a form"},
		{"curl http://a.example -u user", "write it as USER:PASSWORD"},
		{"curl http://a.example -b jar.txt", "a file of cookies"},
		{"curl http://a.example --digest -u a:b", "column 23: the option --digest"},
		{"curl http://a.example --next http://b.example", "one command may have one request"},
		{"curl http://a.example -d @missing", "column 26: the option -d: file does not exist"},
	} {
		r, err := shell.Curl(c.line)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n  %+v, %v\n  want %q", c.line, r, err, c.want)
		}
	}
	if _, err := shell.Curl("curl http://a.example -d @missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cause is lost: %v", err)
	}
	for _, line := range []string{"curl http://a.example -d @order.json", "curl http://a.example -d $TOKEN"} {
		if r, err := input.Curl(line); err == nil {
			t.Errorf("%s without a shell: %+v", line, r)
		}
	}
}

func FuzzCurl(f *testing.F) {
	for _, line := range commands {
		f.Add(strings.ReplaceAll(line, "BASE", "http://localhost:8080"))
	}
	f.Fuzz(func(t *testing.T, line string) {
		r, err := shell.Curl(line)
		if err != nil {
			return
		}
		if _, err := http.NewRequestWithContext(t.Context(), r.Method, r.URL, http.NoBody); err != nil {
			t.Errorf("%q makes %+v: %v", line, r, err)
		}
		if len(r.Body) > 0 && (r.Body[0] == '@' || r.Header["Content-Type"] == nil) {
			return // a line of a report cannot say it
		}
		again, err := input.Shell{LookupEnv: func(name string) (string, bool) {
			value := map[string]string{"AUTHORIZATION": "Authorization", "COOKIE": "Cookie", "API_KEY": "X-Api-Key", "PROXY_AUTHORIZATION": "Proxy-Authorization", "SET_COOKIE": "Set-Cookie"}[name]
			if all := r.Header[value]; len(all) == 1 {
				return all[0], all[0] != ""
			}
			return "", false
		}}.Curl(r.Curl())
		if err == nil && !reflect.DeepEqual(again, r) {
			t.Errorf("%q\nmakes %+v,\nits line %q\nmakes %+v", line, r, r.Curl(), again)
		}
	})
}
