// One record: what happened, what is known, and the form that resolves it.
import { Problem, call } from "./api.js";
import { countDoubts, entitle } from "./count.js";
import { chip, data, facts, field, h, number, seen, span, t, time, when, word } from "./dom.js";
import { reasoned } from "./forms.js";
import { searchedFor } from "./search.js";
import { View, advice, adviceOf, age, causeWord, may, operation, stateChip, whyNot } from "./view.js";

const httpLayers = ["gw", "http", "nginx", "token"];

// begun returns the time at which an attempt began, if its fence tells: a fence is a time in
// microseconds unless it had to be greater.
function begun(fence, r) {
  const at = fence / 1000;
  return at >= Date.parse(r.created) - 60000 && at <= Date.parse(r.updated) + 60000 ? time(at) : null;
}

class Record extends View {
  ask() {
    return this.call(`/records/${encodeURIComponent(this.ref ?? "")}`);
  }

  show(r) {
    this.record = r;
    this.searched ??= searchedFor();
    entitle(seen(r.operation) || t("no-operation"));
    return [h("h1", operation(r), " ", stateChip(r.state), " ", r.cause && chip("plain", causeWord(r.cause))),
      h("p.meta", t("hash"), " ", h("code", r.hash), " · ", word("layer", r.layer), " · ", age(r)),
      this.searched && h("p.meta.searched", t("searched"), " ", h("strong", seen(this.searched))),
      this.explain(r), h("div.columns", this.facts(r), this.timeline(r)), this.resolve(r), this.answer(r), this.reveal(r)];
  }

  // explain says what the state means, why, and what to do now.
  explain(r) {
    const doubt = r.state === "in-doubt";
    const cause = adviceOf(r);
    const waits = doubt && r.on_doubt === "refuse";
    return h(`section.card.${doubt ? "warn" : "plain"}.explain`, { "aria-label": t("explain") }, facts(
      [t("what"), t(`what.${r.state}`), " ", doubt && t(waits ? "what.refuse" : "what.reexecute")],
      doubt && [t("why"), t(`cause.${cause}.why`)],
      doubt && [t("do"), waits ? t(`cause.${cause}.do`) : t("do.reexecute")],
      doubt && r.earlier.length && [t("also"), t("also.earlier")]),
    doubt && may("resolve") && h("p", h("button.primary", { type: "button", onclick: () => this.querySelector("#resolve :is(input, summary)").focus() }, t("resolve.jump"))));
  }

  facts(r) {
    return h("section.card", h("h2", t("known")), facts(
      [t("namespace"), data(r.namespace)], [t("layer"), `${word("layer", r.layer)} (${r.layer})`], [t("policy"), word("policy", r.on_doubt)],
      [t("attempt"), number(r.attempt)], [t("fence"), h("code", String(r.fence))],
      [t("lease"), r.lease_s > 0 ? t("lease.left", { span: span(r.lease_s) }) : t("lease.none")],
      [t("created"), time(r.created)], [t("updated"), time(r.updated)], [t("expires"), r.expires ? time(r.expires) : t("expires.never")]));
  }

  timeline(r) {
    const line = (n, fence, text, tone) => h("li", h("strong", t("attempt-n", { n })), " ", chip(tone, text), h("p.meta", t("fence"), " ", h("code", String(fence)), " ", begun(fence, r)));
    return h("section.card", h("h2", t("timeline")), r.earlier_cut && h("p.hint", t("timeline.cut")),
      h("ol.timeline", r.earlier.map((a) => line(a.attempt, a.fence, t("timeline.may"), "warn")),
        line(r.attempt, r.fence, word("state", r.state), r.state === "in-doubt" ? "warn" : r.state === "completed" ? "good" : "plain")),
      r.steps.length > 0 && [h("h3", t("steps")), h("ol.timeline", r.steps.map((s) => h("li", h("code", seen(s.name)), " ",
        chip(s.finished ? "good" : "warn", t(s.finished ? "step.done" : "step.open")))))],
      r.input_kept && h("p.hint", t("input-kept")));
  }

  answer(r) {
    const a = r.answer;
    return a && h("section.card", h("h2", t("answer")), h("p", t(a.kept ? "answer.kept" : "answer.not-kept")),
      facts(a.status && [t("status"), String(a.status)], [t("codec"), data(a.codec)], [t("size"), t("bytes", { n: number(a.bytes) })]));
  }

  reveal(r) {
    const box = h("section.card", h("h2", t("hidden")), h("p.hint", t("hidden.what")));
    if (!may("reveal")) return box.append(whyNot("reveal")), box;
    box.append(reasoned(t("reveal"), async (reason) => {
      const x = await call(`/records/${r.ref}/reveal`, { body: { reason } });
      const hid = x.hidden;
      const text = (label, lines) => h("pre", { tabindex: 0, "aria-label": label }, seen(lines, true));
      return [facts([t("tenant"), hid.tenant ? data(hid.tenant) : t("empty")], [t("id"), h("code", seen(hid.id))], hid.last_error && [t("last-error"), data(hid.last_error)]),
        hid.header && text(t("header"), Object.entries(hid.header).flatMap(([k, v]) => v.map((one) => `${k}: ${one}`)).join("\n")),
        (hid.body || hid.binary) && text(t("body"), hid.body || t("binary")), x.steps.filter((s) => s.body).map((s) => text(s.name, `${s.name}\n${s.body}`))];
    }, { tone: "quiet", hint: t("reveal.hint"), changes: false }));
    return box;
  }

  // resolve returns the form, or why there is none.
  resolve(r) {
    const live = r.state === "in-progress";
    if (!["in-doubt", "in-progress", "failed"].includes(r.state)) return null;
    const box = h("section.card.resolve", { id: "resolve" }, h("h2", t("resolve")));
    if (!may("resolve")) return box.append(whyNot("resolve")), box;
    const outcomes = r.state === "failed" ? ["not-done"] : ["answer", "done", "failed", "not-done"].filter((o) => o !== "answer" || httpLayers.includes(r.layer));
    const parts = { answer: answerFields(), failed: h("div.stack", field(t("failure"), h("input", { name: "failure", required: true, maxlength: 500 }), t("failure.hint"))) };
    const radios = outcomes.map((o) => h("label.choice", h("input", { type: "radio", name: "outcome", value: o, required: true, onchange: () => pick(o) }),
      h("span", h("strong", t(`outcome.${o}`)), h("span.hint", t(`outcome.${o}.hint`)))));
    const extra = h("div");
    const pick = (o) => extra.replaceChildren(...parts[o] ? [parts[o]] : []);
    const form = reasoned(t("resolve.go"), (reason, f) => this.send(r, reason, Object.fromEntries(new FormData(f))), { hint: t("resolve.reason"), before: [
      h("fieldset", h("legend", t("resolve.found")), radios, !httpLayers.includes(r.layer) && h("p.hint", t("resolve.no-answer"))), extra,
      live && h("label.choice", h("input", { type: "checkbox", name: "force", value: "1", required: true }), h("span", h("strong", t("force")), h("span.hint", t("force.hint")))),
      h("p.hint", t("resolve.fence"), " ", h("code", String(r.fence)), ". ", t("resolve.fence.why")),
    ] });
    box.append(live ? h("details", h("summary", t("resolve.live")), form) : form);
    return box;
  }

  async send(r, reason, f) {
    const body = { fence: r.fence, outcome: f.outcome === "answer" ? "done" : f.outcome, reason };
    if (f.force) body.force = true;
    if (f.outcome === "answer") {
      Object.assign(body, { status: Number(f.status), body: f.body, content_type: f.content_type });
      if (f.location) body.location = f.location;
    }
    if (f.outcome === "failed") body.failure = f.failure;
    try {
      await call(`/records/${r.ref}/resolve`, { body });
    } catch (e) {
      if (e instanceof Problem && ["changed", "completed", "in-progress"].includes(e.code)) return this.changed(r, e);
      throw e;
    }
    countDoubts();
    await this.load();
    const said = h("div.notice.good", { role: "status", tabindex: -1 }, h("p", h("strong", t("resolved"))), h("p", t(`resolved.${f.outcome}`)),
      h("p", h("a", { href: "#/doubts" }, t("resolved.next")), " · ", h("a", { href: "#/audit" }, t("see-audit"))));
    this.querySelector("h1").after(said);
    said.focus();
  }

  // changed shows what is different from the record that was looked at.
  async changed(r, e) {
    const now = await call(`/records/${r.ref}`);
    const words = { state: (x) => word("state", x.state), cause: (x) => x.cause ? causeWord(x.cause) : "–", attempt: (x) => number(x.attempt), fence: (x) => String(x.fence), updated: (x) => when(x.updated) };
    const rows = Object.entries(words).filter(([name]) => r[name] !== now[name]);
    const box = advice(e, () => this.load());
    box.lastChild.textContent = t("changed.look");
    if (rows.length) box.lastChild.before(facts(...rows.map(([name, say]) => [t(name), h("del", say(r)), " → ", h("ins", say(now))])));
    return box;
  }
}

function answerFields() {
  return h("div.stack",
    field(t("status"), h("input", { name: "status", type: "number", min: 200, max: 599, value: 201, required: true })),
    field(t("content-type"), h("input", { name: "content_type", value: "application/json", required: true })),
    field(t("location"), h("input", { name: "location" }), t("location.hint")),
    field(t("body"), h("textarea", { name: "body", rows: 5, spellcheck: "false" }), t("body.hint")));
}

customElements.define("rs-record", Record);
