// Package forms makes plain HTML forms safe to send again: a double click, Enter and a click, a
// reload, Back and another press all lead to the one order, with or without a script in the page.
//
// A page gets a hidden field with a key of its own ([Funcs], [Render]), the middleware takes the
// key from it (httpidem.Options.FormKey, or the key httpidem.Token), and the answer is a redirect
// to the result ([SeeOther]). Whoever presses again is told the same redirect from the record:
//
//	idem := httpidem.New(engine, &httpidem.Options{
//		Tenant: userOf, Key: httpidem.Required, FormKey: true, Answer: forms.Answer(nil),
//		Policy: retrysafe.Policy{Wait: 10 * time.Second},
//	})
//
// Policy.Wait matters here: when somebody clicks twice, the browser shows the answer to the second
// click, which should be the first answer and not a refusal.
//
// None of this is a protection against cross-site request forgery. A key says that two requests are
// one; it does not say that the user wanted any. Keep what you have against that: SameSite cookies,
// http.CrossOriginProtection, a token of the session.
//
// This is a package of its own since html/template adds more than 2 MB to a program.
package forms
