// Package forms makes plain HTML forms safe to send again. A double click, Enter and a click, a
// reload, or Back and another press all lead to one order, with or without a script in the page.
//
// A page gets a hidden field with its own key ([Funcs], [Render]). The middleware takes the key
// from it (httpidem.KeySource.Form, or the key httpidem.Token). The answer is a redirect to the
// result ([SeeOther]). A user who presses again gets the same redirect from the record:
//
//	idem := httpidem.New(engine, &httpidem.Options{
//		Tenant: userOf, Key: httpidem.Required, FormKey: true, ErrorHandler: forms.ErrorHandler(nil),
//		Policy: retrysafe.Policy{Wait: 10 * time.Second},
//	})
//
// Policy.Wait matters here. If a user clicks twice, the browser shows the answer to the second
// click, which should be the first answer and not a refusal.
//
// None of this protects against cross-site request forgery. A key says that two requests are one;
// it does not say that the user wanted either. Keep your protection: SameSite cookies,
// http.CrossOriginProtection, a session token.
//
// A program that renders its pages in another way than with html/template uses [KeyField],
// [Options.TokenField] and [Header], and links no templates: with them the linker keeps every
// exported method, which can add many megabytes.
package forms
