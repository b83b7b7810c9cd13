// Package browser has the script for pages: one idempotency key per action, kept until the action
// has its answer, retries with it, and forms that are sent once. It is an ES module without
// dependencies; docs/browser.md says what it does, and retrysafe.d.ts has its types.
//
//	mux.Handle("GET /static/retrysafe.js", browser.Handler())
//
// and in the page
//
//	<script type="module">
//	import { fetchOnce } from "/static/retrysafe.js";
//	</script>
package browser
