package report_test

import (
	"net/http"

	"github.com/retrysafe/retrysafe/check"
)

// attack is text that would run in a page, end an element of a form, or control a terminal.
const attack = `</pre></script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">"'` + "`" + `{{.}} ]]> &amp; ` +
	"```\n# x\n\x1b]0;title\x07\x1b[2J\r\x00\u202e\u2028\x85 javascript:window.hacked=1 \xff"

// hostileReport is a report of an API that attacks its reader, in each field.
func hostileReport() *check.Report {
	r := sampleReport()
	r.Target, r.Oracle, r.Contract = "POST http://localhost/"+attack, attack, attack
	r.Notes = []string{attack}
	for i := range r.Results {
		one := &r.Results[i]
		one.Title, one.Summary, one.Help, one.Page = attack, attack, attack, "javascript:window.hacked=1//"+attack
		for j := range one.Exchanges {
			e := &one.Exchanges[j]
			e.Step, e.Body, e.Error = attack, attack+string(rune('0'+j)), attack
			e.Curl = "curl -i -X POST 'http://localhost/" + attack + "'"
			e.Header = http.Header{"X-Attack": {attack, attack}, attack: {attack}}
		}
	}
	return r
}
