package demo

import (
	"net"
	"net/http"
	"net/url"
)

// policy lets the page load only resources of this server. No other site may frame the page and
// capture a click.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"frame-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guardPage refuses requests of other web sites that are open in the same browser. They could pay
// and kill. A foreign name that resolves to this machine shows in Host, and a request from a
// foreign page in Origin.
func guardPage(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		switch {
		case !isLoopback(hostOf(r.Host)):
			http.Error(w, "this page is for the machine that it runs on: open it by its address on loopback", http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Header.Get("Origin") != "http://"+r.Host:
			http.Error(w, "this was not sent by the page itself, so nothing was done: press the button on the page", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// hostOf returns a Host field without its port.
func hostOf(host string) string {
	u := url.URL{Host: host}
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return u.Hostname()
}
