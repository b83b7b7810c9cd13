// The base of all views: loading, problems, and what one may do.
import { Problem, call } from "./api.js";
import { chip, clock, data, h, has, span, t, word } from "./dom.js";

// me is who the caller is, once it is known.
export let me = null;
export async function whoAmI() {
  me = null;
  me = await call("/me");
  return me;
}
export const may = (role) => Boolean(me?.audit) && me.roles.includes(role);

// whyNot says why something is not offered.
export const whyNot = (role) => h("p.hint.why", !me?.audit ? t("me.no-audit") : t("me.lacks", { role: word("role", role) }));

// advice shows a problem: what happened and what to do, and the server's own words if they add to it.
export function advice(e, again) {
  const known = has(`problem.${e.code}`);
  const more = !known || ["bad-request", "ambiguous", "not-json"].includes(e.code);
  return h("div.problem", { role: "alert" }, h("p", h("strong", t(known ? `problem.${e.code}` : "problem.other"))),
    has(`problem.${e.code}.do`) && h("p", t(`problem.${e.code}.do`)), more && e.detail && h("p", { lang: "en" }, data(e.detail)),
    again && h("button", { type: "button", onclick: again }, t("again")));
}

// lostCaller tells the frame that the server does not know the caller, or not any more as it was.
export function lostCaller(e) {
  if (["unauthenticated", "forbidden"].includes(e.code)) document.dispatchEvent(new CustomEvent("rs-caller", { detail: e.code }));
}

const passing = ["offline", "unavailable", "busy"];

// View is a page. It has ask(), which fetches, and show(data), which returns elements.
export class View extends HTMLElement {
  heading() {
    return h("h1", t(`nav.${this.name ?? "record"}`));
  }

  connectedCallback() {
    this.replaceChildren(...[this.heading(), h("p.hint.late", { role: "status" }, t("loading"))].filter(Boolean));
    this.load();
  }

  disconnectedCallback() {
    clearTimeout(this.timer);
    this.leave?.abort();
  }

  // call is a call of the API that ends when the view is left or loaded again.
  call(path, options) {
    return call(path, { signal: this.leave.signal, ...options });
  }

  async load() {
    clearTimeout(this.timer);
    this.leave?.abort();
    const leave = this.leave = new AbortController();
    this.setAttribute("aria-busy", "true");
    try {
      const got = await this.ask();
      if (leave.signal.aborted) return;
      this.at = Date.now();
      this.replace([this.show(got)].flat(3).filter(Boolean));
    } catch (e) {
      if (!leave.signal.aborted) this.fail(e);
    } finally {
      if (this.leave === leave) this.removeAttribute("aria-busy");
    }
  }

  // replace shows other elements. Who had the focus on one that goes has it on the row in its place, or
  // at the beginning of the view.
  replace(shown) {
    if (shown.length === this.children.length && shown.every((e, i) => e === this.children[i])) return;
    const active = document.activeElement;
    const had = this.contains(active);
    const row = [...this.querySelectorAll("[data-row]")].indexOf(active);
    this.replaceChildren(...shown);
    if (had && !this.contains(document.activeElement)) (this.querySelectorAll("[data-row]")[row] ?? this.closest("main"))?.focus({ preventScroll: true });
  }

  // begun reports whether a person has begun to fill in a form of the view.
  begun() {
    return [...this.querySelectorAll("form :is(input, textarea)")].some((e) => e.value !== e.defaultValue || e.checked !== e.defaultChecked);
  }

  // fail puts the problem over what is shown, and asks again where waiting can help.
  fail(e) {
    if (!(e instanceof Problem)) throw e;
    for (const old of this.querySelectorAll(":scope > :is(.problem, .late)")) old.remove();
    const shown = advice(e, () => this.load());
    const waits = passing.includes(e.code);
    shown.append(...[waits && h("p.hint", t("retries")), this.at && h("p.hint", t("stale", { at: clock(this.at) }))].filter(Boolean));
    const head = this.querySelector(":scope > h1");
    if (head) head.after(shown);
    else this.prepend(shown);
    lostCaller(e);
    // what a person has written stays
    const again = () => { this.timer = setTimeout(() => this.begun() ? again() : this.load(), 5000); };
    if (waits) again();
  }
}

const tones = { "in-doubt": "warn", "in-progress": "info", completed: "good", failed: "bad", released: "plain", issued: "plain" };
export const stateChip = (state) => chip(tones[state] ?? "plain", word("state", state));
export const adviceOf = (r) => has(`cause.${r.cause}.why`) ? r.cause : "other";
export const causeWord = (cause) => word("cause", cause);
export const operation = (r) => r.operation ? data(r.operation) : t("no-operation");

// age says how long the record has been in doubt, or when it changed.
export const age = (r) => t(r.doubt_since ? "doubt-for" : "changed-ago", { span: span(r.age_s) });

// row is a record in a list. advise adds why, and what to do.
export const row = (r, advise) => h("li", h("a.row", { href: `#/record/${r.ref}`, "data-row": true },
  h("span.title", operation(r), " ", stateChip(r.state), " ", r.cause && chip("plain", causeWord(r.cause))),
  h("span.meta", h("code", r.hash), ` · ${word("layer", r.layer)} · ${age(r)} · ${t("attempt-n", { n: r.attempt })}`)),
advise && h("p.advice", t(`cause.${adviceOf(r)}.why`), " ", h("strong", t("do-now")), " ", t(`cause.${adviceOf(r)}.do`)));
