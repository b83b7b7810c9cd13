// Search: by hash, by the whole key, and by what records have in common.
import { call } from "./api.js";
import { field, h, select, t, word } from "./dom.js";
import { question } from "./forms.js";
import { list, search } from "./list.js";
import { View, me } from "./view.js";

const states = ["in-doubt", "in-progress", "completed", "failed", "released", "issued"];
const layers = ["gw", "http", "fn", "tx", "mq", "rpc", "token", "ids"];
export const input = (name, value = "", more = {}) => h("input", { name, value, autocomplete: "off", spellcheck: "false", ...more });

function layer(name, value, any) {
  const options = layers.map((l) => [l, `${word("layer", l)} (${l})`]);
  return select({ name, value }, any ? [["", t("any")], ...options] : options);
}

// tenants are those that were searched for, by the address that stands for the search.
const tenants = new Map();

class Search extends View {
  name = "search";

  ask() {}

  show() {
    const q = this.query;
    this.found = h("section.found");
    if (q.hash || q.list) this.find(q);
    return [h("h1", t("nav.search")), h("div.columns", this.hashForm(q), this.listForm(q), this.keyForm()), this.found];
  }

  hashForm(q) {
    const hash = input("hash", q.hash, { required: true, pattern: " *[0-9a-fA-F]{16} *", title: t("search.hash.hint"), id: "hash" });
    return question("search.hash", [field(t("hash"), hash, t("search.hash.hint"))], (v) => this.go({ hash: v.hash.trim().toLowerCase(), namespace: q.namespace ?? "" }));
  }

  keyForm() {
    return question("search.key", [h("p.hint", t("search.key.hint")), field(t("operation"), input("operation")), field(t("id"), input("id", "", { required: true })),
      field(t("tenant"), input("tenant")), field(t("layer"), layer("layer", "gw")), field(t("namespace"), input("namespace", me?.namespace))], async (v) => {
      location.hash = `#/record/${(await call("/records/find", { body: v })).ref}`;
    });
  }

  listForm(q) {
    return question("search.list", [
      field(t("state"), select({ name: "state", value: q.state ?? "in-doubt" }, [["", t("any")], ...states.map((s) => [s, word("state", s)])]), t("search.list.hint")),
      field(t("operation"), input("operation", q.operation)), field(t("tenant"), input("tenant", this.tenant()), t("search.tenant.hint")), field(t("layer"), layer("layer", q.layer ?? "", true)),
      field(t("older"), input("older", q.older, { type: "number", min: 0 })), field(t("namespace"), input("namespace", q.namespace ?? me?.namespace)),
    ], (v) => this.go({ ...v, list: 1 }));
  }

  // go puts a search into the address, so that Back returns to it.
  go({ tenant = "", ...query }) {
    const to = `#/search?${new URLSearchParams(Object.entries({ ...query, by: tenant && "tenant" }).filter(([, v]) => v !== ""))}`;
    tenants.set(to, tenant);
    if (location.hash === to) this.load();
    else location.hash = to;
  }

  tenant() {
    return tenants.get(location.hash) ?? "";
  }

  find({ list: _, by, tenant: __, ...query }) {
    if (by && !this.tenant()) return this.found.replaceChildren(h("p.notice", { role: "status" }, t("search.tenant.again")));
    const [box, first] = query.hash ? search(query, this.leave.signal) : list(query, false, this.leave.signal, this.tenant());
    this.found.replaceChildren(h("h2", t("found")), box);
    first.then(() => this.found.scrollIntoView({ block: "nearest" }));
  }
}

customElements.define("rs-search", Search);
