// Package browser has the script for pages. It makes one idempotency key per action, keeps it until
// the action has its answer, retries with it, and sends forms once. It is an ES module without
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
