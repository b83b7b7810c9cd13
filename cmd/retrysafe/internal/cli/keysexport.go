package cli

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/httpidem"
)

func exportCommand(f *keysFlags) *cobra.Command {
	var who operator
	c := &cobra.Command{
		Use: "export --user CALLER --reason TEXT", Args: cobra.NoArgs, Short: "Print what the store keeps about a caller",
		Long: "export prints each record of a caller as one line of JSON: key, operation, state, times, and the stored answer or the\n" +
			"input and the steps of a call that is not finished. --tenant names a caller by its tenant.\n\n" + userHelp + "\n\n" +
			"The audit log of the namespace gets an entry first. Records are read one after the other, so a store of any size can\n" +
			"be exported. A sealed answer is printed only with --seal-keys or RETRYSAFE_SEAL_KEYS.",
		RunE: func(c *cobra.Command, _ []string) error { return f.exportUser(c, &who) },
	}
	f.addSelectionFlags(c)
	who.addFlags(c, "why, for the audit log; required")
	return c
}

// exportedRecord is a record of a caller, for that person to read.
type exportedRecord struct {
	Hash      string          `json:"hash"`
	Namespace string          `json:"namespace"`
	Layer     string          `json:"layer"`
	Operation string          `json:"operation"`
	Key       string          `json:"key"`
	Tenant    string          `json:"tenant"`
	State     string          `json:"state"`
	Created   time.Time       `json:"created"`
	Updated   time.Time       `json:"updated"`
	Expires   *time.Time      `json:"expires,omitempty"`
	LastError string          `json:"last_error,omitempty"`
	Answer    *exportedAnswer `json:"answer,omitempty"`
	Input     *exportedAnswer `json:"input,omitempty"`
	Steps     []exportedStep  `json:"steps,omitempty"`
}

// exportedStep is a finished step of a call that is not finished.
type exportedStep struct {
	Name   string          `json:"name"`
	Answer *exportedAnswer `json:"answer"`
}

// exportedAnswer has the body as JSON if it is JSON, else as a text, or else in base64.
type exportedAnswer struct {
	Status int             `json:"status,omitempty"`
	Header http.Header     `json:"header,omitempty"`
	JSON   json.RawMessage `json:"json,omitempty"`
	Text   string          `json:"text,omitempty"`
	Base64 string          `json:"base64,omitempty"`
	Note   string          `json:"note,omitempty"`
}

func exportAnswer(a *retrysafe.Answer) *exportedAnswer {
	switch {
	case a.Sealed():
		return &exportedAnswer{Note: "the answer is sealed, and this command has no key for it"}
	case !a.Kept:
		return &exportedAnswer{Note: "the answer is not stored"}
	}
	out, body := new(exportedAnswer), a.Body
	if status, header, inner, err := httpidem.ReadStored(*a); err == nil {
		out.Status, out.Header, body = status, header, inner
	}
	out.setBody(body)
	return out
}

func (a *exportedAnswer) setBody(body []byte) {
	switch {
	case json.Valid(body):
		a.JSON = body
	case utf8.Valid(body):
		a.Text = string(body)
	default:
		a.Base64 = base64.StdEncoding.EncodeToString(body)
	}
}

// exportRecord returns what a record tells of its caller.
func exportRecord(d *admin.Records, rec *retrysafe.Record) *exportedRecord {
	out := &exportedRecord{
		Hash: d.Hash(rec.Key), Namespace: rec.Key.Namespace, Layer: rec.Key.Layer, Operation: rec.Key.Operation, Key: rec.Key.ID, Tenant: rec.Key.Tenant,
		State: admin.StateOf(rec), Created: rec.Created.UTC(), Updated: rec.Updated.UTC(), LastError: rec.LastError,
	}
	if !rec.Expires.IsZero() {
		at := rec.Expires.UTC()
		out.Expires = &at
	}
	if rec.State.Finished() {
		out.Answer = exportAnswer(&rec.Answer)
		return out
	}
	progress, err := retrysafe.ProgressOf(rec)
	switch {
	case rec.Answer.Sealed():
		out.Answer = exportAnswer(&rec.Answer)
		return out
	case err != nil:
		out.Answer = &exportedAnswer{Note: err.Error()}
		return out
	}
	if progress.Input.Codec != "" {
		out.Input = new(exportedAnswer)
		out.Input.setBody(progress.Input.Body)
	}
	for _, s := range progress.Steps {
		if s.Finished {
			step := exportedStep{s.Name, new(exportedAnswer)}
			step.Answer.setBody(s.Answer.Body)
			out.Steps = append(out.Steps, step)
		}
	}
	return out
}

// selectCaller returns what the flags select. They must name one caller, and the secret must be
// that of the service.
func (f *keysFlags) selectCaller(c *cobra.Command, d *admin.Records) (sel admin.Selection, err error) {
	caller, err := f.callerName(c)
	switch {
	case err != nil:
		return sel, err
	case caller != nil && !caller.IsOneCaller():
		return sel, &usageError{fmt.Errorf("--user %s can name two callers; say basic:%s or header:%s", caller, caller, caller)}
	case caller == nil && f.tenant == "":
		return sel, &usageError{errors.New("--user is needed: it names the caller whose records are meant")}
	}
	if sel, err = f.selectionOf(d, caller); err != nil {
		return sel, err
	}
	return sel, f.requireSecret(c, d)
}

// eachOfCaller calls do with each record of a caller, with its answer, until do returns an error.
func (f *keysFlags) eachOfCaller(c *cobra.Command, d *admin.Records, sel *admin.Selection, do func(*retrysafe.Record) error) (unreadable int, err error) {
	var failed error
	unreadable, err = f.eachRecord(c.Context(), d, sel.ListRequest, c.ErrOrStderr(), func(listed *retrysafe.Record) bool {
		if isReserved(listed.Key.Layer) || !sel.Selects(listed) {
			return true
		}
		rec, err := lookupRecord(c.Context(), d, listed.Key)
		if errors.Is(err, retrysafe.ErrNotFound) {
			return true // it has expired meanwhile
		}
		if failed = err; err == nil {
			failed = do(&rec)
		}
		return failed == nil
	})
	return unreadable, errors.Join(err, failed)
}

func (f *keysFlags) exportUser(c *cobra.Command, who *operator) (err error) {
	if err := errors.Join(f.setNamespace(), who.validate(true)); err != nil {
		return err
	}
	s, d, closeStore, err := f.openRecords(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	sel, err := f.selectCaller(c, d)
	if err != nil {
		return err
	}
	begun, err := auditLog(s, f.namespace).Begin(c.Context(), who.entry("export", f.callerObject(d, &sel), ""))
	if err != nil {
		return err
	}
	out := json.NewEncoder(c.OutOrStdout())
	out.SetEscapeHTML(false)
	n, sealed := 0, 0
	_, err = f.eachOfCaller(c, d, &sel, func(rec *retrysafe.Record) error {
		n++
		if rec.Answer.Sealed() {
			sealed++
		}
		return out.Encode(exportRecord(d, rec))
	})
	fmt.Fprintf(c.ErrOrStderr(), "%d records of the caller were printed\n", n)
	if sealed > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "%d of them are sealed; --seal-keys or RETRYSAFE_SEAL_KEYS opens them\n", sealed)
	}
	if n == 0 {
		fmt.Fprintf(c.ErrOrStderr(), "nothing was found in namespace %s%s\n", Printable(f.namespace), secretHint(&sel))
	}
	return begun.End(c.Context(), fmt.Sprintf("%d records", n), err)
}
