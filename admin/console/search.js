// Search: by who sent a request and its key, by what records have in common, and by hash.
import { call } from "./api.js";
import { field, h, select, t, word } from "./dom.js";
import { question } from "./forms.js";
import { list, search } from "./list.js";
import { View, may, me, whyNot } from "./view.js";

const states = ["in-doubt", "in-progress", "completed", "failed", "released", "issued"];
const layers = ["gw", "http", "fn", "tx", "mq", "rpc", "token", "ids"];
export const input = (name, value = "", more = {}) => h("input", { name, value, autocomplete: "off", spellcheck: "false", ...more });

function layer(name, value, any) {
  const options = layers.map((l) => [l, `${word("layer", l)} (${l})`]);
  return select({ name, value }, any ? [["", t("any")], ...options] : options);
}

// What a search sends in its body, by the address that stands for the search: it is in no log.
const bodies = new Map();
const inBody = ["tenant", "user", "id", "location", "text", "reason"];

// searchedFor returns the caller and the key of the search that a person has come from, in words:
// what it found has them, and no page about a record shows them.
let cameFrom = "";
addEventListener("hashchange", (event) => { cameFrom = new URL(event.oldURL).hash; });
export function searchedFor() {
  const { user, id } = bodies.get(cameFrom) ?? {};
  return [user && `${t("user")} ${user}`, id && `${t("search.id")} ${id}`].filter(Boolean).join(", ");
}

// asks is true from the moment at which a person asks until the view shows what it finds.
let asks = false;

// goSearch puts a search into the address, so that Back returns to it, except for what is in its body.
export function goSearch(v) {
  const body = Object.fromEntries(inBody.filter((k) => v[k]).map((k) => [k, v[k]]));
  const query = Object.entries(v).filter(([k, x]) => x !== "" && !inBody.includes(k));
  const of = Object.keys(body).filter((k) => k !== "reason");
  if (of.length) query.push(["by", of.join()]);
  const to = `#/search?${new URLSearchParams(query)}`;
  bodies.set(to, of.length ? body : {});
  asks = true;
  if (location.hash === to) document.querySelector("rs-search").load();
  else location.hash = to;
}

// utc is the time of an input of this browser, for the API.
const utc = (local) => local && new Date(local).toISOString();

class Search extends View {
  name = "search";

  ask() {}

  show() {
    const q = this.query;
    this.found = h("section.found");
    if (q.hash || q.list) this.find(q);
    return [h("h1", t("nav.search")), this.listForm(q), this.found, h("div.columns", this.hashForm(q), this.keyForm())];
  }

  hashForm(q) {
    const hash = input("hash", q.hash, { required: true, pattern: " *[0-9a-fA-F]{16} *", title: t("search.hash.hint"), id: "hash" });
    return question("search.hash", [field(t("hash"), hash, t("search.hash.hint"))], (v) => goSearch({ hash: v.hash.trim().toLowerCase(), namespace: q.namespace ?? "" }));
  }

  keyForm() {
    return question("search.key", [h("p.hint", t("search.key.hint")), field(t("operation"), input("operation")), field(t("search.id"), input("id", "", { required: true })),
      field(t("user"), input("user"), t("search.user.hint")), field(t("tenant"), input("tenant")), field(t("layer"), layer("layer", "gw")), field(t("namespace"), input("namespace", me?.namespace))], async (v) => {
      location.hash = `#/record/${(await call("/records/find", { body: v })).ref}`;
    });
  }

  listForm(q) {
    const { user, id, tenant } = this.body();
    const older = ["layer", "from", "to", "older"].some((k) => q[k]) || tenant || q.namespace && q.namespace !== me?.namespace;
    return question("search.list", [
      h("div.split.fields", field(t("user"), input("user", user), t("search.user.hint")), field(t("search.id"), input("id", id), t("search.id.hint")),
        field(t("operation"), input("operation", q.operation), t("search.operation.hint")),
        field(t("state"), select({ name: "state", value: q.state ?? "" }, [["", t("any")], ...states.map((s) => [s, word("state", s)])]), t("search.list.hint"))),
      h("details", { open: Boolean(older) }, h("summary", t("search.more")), h("div.split.fields",
        field(t("since"), input("from", q.from, { type: "datetime-local" })), field(t("until"), input("to", q.to, { type: "datetime-local" }), t("search.time.hint")),
        field(t("older"), input("older", q.older, { type: "number", min: 0 })), field(t("tenant"), input("tenant", tenant), t("search.tenant.hint")),
        field(t("layer"), layer("layer", q.layer ?? "", true)), field(t("namespace"), input("namespace", q.namespace ?? me?.namespace)))),
      this.answerFields(),
    ], (v) => goSearch({ ...v, list: 1 }));
  }

  // answerFields ask for what an answer has. That is a look at what is hidden.
  answerFields() {
    const { location, text, reason } = this.body();
    return h("details", { open: Boolean(location || text) }, h("summary", t("search.answer")), may("reveal")
      ? [field(t("search.location"), input("location", location), t("search.location.hint")), field(t("search.text"), input("text", text, { minlength: 4 }), t("search.text.hint")),
        field(t("reason"), input("reason", reason), t("reveal.hint"))] : whyNot("reveal"));
  }

  body() {
    return bodies.get(location.hash) ?? {};
  }

  find({ list: _, by, from, to, ...query }) {
    for (const k of inBody) delete query[k];
    const body = by && this.body();
    if (by && !Object.keys(body).length) return this.found.replaceChildren(h("p.notice", { role: "status" }, t("search.again")));
    const [box, first] = query.hash ? search(query, this.leave.signal) : list({ ...query, since: utc(from), until: utc(to) }, false, this.leave.signal, body);
    const head = h("h2", { tabindex: -1 }, t("found"));
    this.found.replaceChildren(head, box);
    first.then(() => this.found.scrollIntoView({ block: "nearest" }));
    if (!asks) return;
    asks = false;
    queueMicrotask(() => head.focus()); // once it is in the page
  }
}

customElements.define("rs-search", Search);
