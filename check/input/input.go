// Package input makes a [check.Request] of what a developer has at hand: a curl command, or a HAR
// file of a browser. Package openapi reads OpenAPI documents.
//
// It reads text only. It sends nothing, and opens no file and no page that the text names, unless
// the caller gives a function that does. Errors name the place in the text.
//
// Fields that belong to one connection or follow from the body are left out, since whatever sends
// the request makes its own: Content-Length, Connection, Transfer-Encoding and the like. So is
// Accept-Encoding, which would make answers unreadable in a report.
package input

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe/check"
)

// maxText bounds a text that is read, in bytes.
const maxText = 64 << 20

// Named is a request of a document that has several.
type Named struct {
	// Name is the method and the path: "POST /orders". Further requests of one name have a number:
	// "POST /orders (2)".
	Name string
	// ID is the operationId of an OpenAPI document, or empty.
	ID string
	// Request is the request, or what is known of it if Reason is set.
	Request check.Request
	// Reason says why the request cannot be sent. It is empty if it can.
	Reason string
}

// Pick returns the request whose name or id is pick. With an empty pick it returns the only one
// that can be sent. Its errors list the names.
func Pick(all []Named, pick string) (Named, error) {
	if len(all) == 0 {
		return Named{}, errors.New("no request in it would have an effect")
	}
	var ready []Named
	for _, n := range all {
		switch {
		case pick != "" && (n.ID == pick || n.Name == pick):
			if n.Reason != "" {
				return Named{}, fmt.Errorf("%s cannot be sent: %s", pick, n.Reason)
			}
			return n, nil
		case n.Reason == "":
			ready = append(ready, n)
		}
	}
	switch {
	case pick == "" && len(ready) == 1:
		return ready[0], nil
	case pick == "" && len(ready) == 0:
		return Named{}, fmt.Errorf("no request can be sent; the first, %s: %s", all[0].Name, all[0].Reason)
	case pick == "":
		return Named{}, fmt.Errorf("pick one of %s", listNames(ready))
	default:
		return Named{}, fmt.Errorf("there is no %q; pick one of %s", pick, listNames(all))
	}
}

// listNames lists the first names.
func listNames(all []Named) string {
	const most = 20
	var list []string
	for i, n := range all {
		if i == most {
			list = append(list, fmt.Sprintf("and %d more", len(all)-most))
			break
		}
		list = append(list, n.Name)
	}
	return strings.Join(list, ", ")
}

// numberNames gives requests of one name a number.
func numberNames(all []Named) []Named {
	seen := make(map[string]int, len(all))
	for i, n := range all {
		seen[n.Name]++
		if seen[n.Name] > 1 {
			all[i].Name = fmt.Sprintf("%s (%d)", n.Name, seen[n.Name])
		}
	}
	return all
}

// isUnsafe reports whether a method may have an effect.
func isUnsafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodConnect:
		return false
	}
	return true
}
