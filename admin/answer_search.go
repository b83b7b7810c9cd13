package admin

import (
	"crypto/sha256"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// answersOfPage bounds the answers that are read at a time: each is a call of the store.
const answersOfPage = 100

// answerPage is a page of a search in answers. The first page is written to the audit log. The
// others go on from a cursor that only such a page gives out, for the same caller and search.
type answerPage struct {
	log       *Audit
	entry     Entry
	namespace string // the log is of one, so the search is too
	bound     string // what cursors of this search begin with
	first     bool
}

// purposeAnswers is that of the cursors of a search in answers.
const purposeAnswers = "answers"

// beginAnswerSearch checks that the caller may search in answers. It returns the parameter after of
// the list below the search.
func (c *apiCall) beginAnswerSearch(q *AnswerQuery, reason, after string) (p answerPage, listAfter string, err error) {
	if !c.caller.Roles.Has(Reveal) {
		return p, "", c.forbiddenProblem(Reveal)
	}
	if err := q.Validate(); err != nil {
		return p, "", badRequest(err.Error())
	}
	if err := checkReason(reason); err != nil {
		return p, "", err
	}
	namespace, err := c.resolveNamespace(c.r.URL.Query().Get("namespace"))
	if err != nil {
		return p, "", err
	}
	if namespace == "" {
		return p, "", badRequest("a search in answers needs a namespace, whose audit log gets its entry")
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{c.caller.Name, namespace, q.Location, q.Text}, "\x00")))
	p = answerPage{
		log: c.auditLog(namespace), namespace: namespace, bound: string(sum[:]), first: after == "",
		entry: Entry{Action: "search-answers", Object: "namespace " + namespace, Reason: reason},
	}
	if p.first {
		return p, "", nil
	}
	text, err := c.records.refs.openText(purposeAnswers, after)
	listAfter, ok := strings.CutPrefix(string(text), p.bound)
	if err != nil || !ok {
		return p, "", badRequest("after is not a next of this search; begin with the first page")
	}
	return p, listAfter, nil
}

// searchAnswers returns a page of the records whose answers have what is searched for.
func (c *apiCall) searchAnswers(p *answerPage, q AnswerQuery, req storeapi.ListRequest, wants wantsRecord) (out recordsJSON, err error) {
	answers, sealed := 0, 0
	req.Namespace = p.namespace
	read := func() (string, error) {
		out, err = c.records.readPage(c.r.Context(), req, func(rec *retrysafe.Record, r *recordJSON) (bool, error) {
			wanted, err := wants(rec, r)
			if err != nil || !wanted {
				return false, err
			}
			got, err := c.records.MatchAnswer(c.r.Context(), rec, q)
			switch got {
			case AnswerSealed:
				sealed++
			case AnswerMatches, AnswerDiffers:
				answers++
			}
			return got == AnswerMatches, err
		})
		return "", err
	}
	if p.first {
		err = c.doAudited(p.log, p.entry, read)
	} else {
		_, err = read()
	}
	if err != nil {
		return recordsJSON{}, err
	}
	out.Answers, out.Sealed = answers, sealed
	if out.Next != "" {
		out.Next = c.records.refs.sealText(purposeAnswers, []byte(p.bound+out.Next))
	}
	return out, nil
}
