package demo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/retrysafe/retrysafe/check"
)

// sceneChecks are the checks of the scene: those that a person can follow, and that do not wait.
var sceneChecks = []string{
	"sequential-duplicate", "concurrent-duplicates", "new-key", "other-body", "json-order", "other-caller",
	"no-credentials", "hang-up", "doubled-key", "long-key", "fidelity", "replay-marker",
}

// sceneRequests is about how many requests the scene sends on each side.
const sceneRequests = 100

// checkScene examines a side as retrysafe check does.
func checkScene(ctx context.Context, s *stage, protected bool) (string, string, bool, error) {
	report, err := examineSide(ctx, s, protected, nil)
	if err != nil {
		return "", "", false, err
	}
	faults := report.Count(check.Broken)
	return fmt.Sprintf("%d of %d checks broken", faults, len(sceneChecks)), yesOrNo(faults == 0), faults == 0, nil
}

// examineSide examines a side. see, if not nil, is called before and after each check.
func examineSide(ctx context.Context, s *stage, protected bool, see func(check.Event)) (*check.Report, error) {
	addr, name := s.shop.addr, s.sceneName("check", protected)
	if protected {
		addr = s.gateway.addr
	}
	body, err := json.Marshal(request{Scene: name, Item: "tea", WorkMS: 5})
	if err != nil {
		return nil, err
	}
	return check.Examine(ctx, check.Target{
		Request: check.Request{
			URL: "http://" + addr + "/orders", Body: body,
			Header: http.Header{"Content-Type": {"application/json"}, "Authorization": {basicAuth("ann")}},
		},
		OtherCaller: http.Header{"Authorization": {basicAuth("bob")}},
		// what the end of the demonstration has to resolve is known by its key
		NewKey: func() string { return s.runKey(rand.Text()) },
		Oracle: check.Page{URL: "http://" + s.shop.addr + "/effects?scene=" + url.QueryEscape(name), Path: "$.orders"},
	}, &check.Options{Only: sceneChecks, Rate: 1000, Settle: 40 * time.Millisecond, OnEvent: see})
}

// basicAuth returns the credentials of a user as a field's value.
func basicAuth(user string) string {
	r := http.Request{Header: make(http.Header)}
	r.SetBasicAuth(user, "demo")
	return r.Header.Get("Authorization")
}
