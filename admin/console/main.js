// The frame of the console: who one is, the way to the views, and the keyboard.
import { token } from "./api.js";
import { badge, countDoubts, entitle, news } from "./count.js";
import { data, field, h, lang, switchLanguage, t, word } from "./dom.js";
import { goSearch } from "./search.js";
import { me, whoAmI } from "./view.js";
import "./doubts.js";
import "./record.js";
import "./traffic.js";
import "./messages.js";
import "./held.js";
import "./audit.js";

// views are the keys of the views. Some are only on servers that have what they show.
const views = { doubts: "d", search: "s", traffic: "t", messages: "m", locks: "l", quotas: "q", workers: "w", audit: "a" };
const optional = ["traffic", "locks", "quotas"];
const here = () => Object.keys(views).filter((v) => !optional.includes(v) || me?.[v]);

const who = h("button.quiet.who", { type: "button", onclick: () => askToken() });
const nav = h("nav", { "aria-label": t("views") });
const main = h("main", { id: "main", tabindex: -1 });
const dialog = h("dialog", { "aria-labelledby": "dialog-title" });
const quick = h("input", { type: "search", name: "quick", "aria-label": t("quick"), placeholder: t("quick.hint"), autocomplete: "off", spellcheck: "false" });
const quickForm = h("form.quick", { role: "search" }, quick);

// kindOf says what a text is that a person looks for without saying it.
const kindOf = (text) => /^(basic|header|jwt|bearer|cookie|credential|secret):/.test(text) ? "user" : /[ /]/.test(text) ? "operation" : "id";

quickForm.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = quick.value.trim();
  quick.value = "";
  if (text) goSearch(/^[0-9a-f]{16}$/i.test(text) ? { hash: text.toLowerCase() } : { list: 1, [kindOf(text)]: text });
});

document.documentElement.lang = lang === "zh" ? "zh-CN" : "en";

// On a narrow page the way to the views and the tools are in a panel that a button opens.
const count = badge();
const panel = h("div.panel", { id: "panel" }, nav, h("div.tools", quickForm, who,
  h("button.quiet", { type: "button", lang: lang === "zh" ? "en" : "zh-CN", onclick: switchLanguage }, lang === "zh" ? "English" : "中文"),
  h("button.quiet", { type: "button", "aria-label": t("keys"), onclick: showKeys }, "?")));
const menu = h("button.quiet.menu", { type: "button", "aria-expanded": "false", "aria-controls": "panel", onclick: () => setMenu(!menuIsOpen()) }, t("menu"));
const header = h("header", h("a.brand", { href: "#/doubts" }, "retrysafe"), h("a.waiting", { href: "#/doubts" }, t("nav.doubts"), " ", badge()), menu, panel);
const menuIsOpen = () => menu.getAttribute("aria-expanded") === "true";

function setMenu(open) {
  menu.setAttribute("aria-expanded", String(open));
  header.classList.toggle("open", open);
}

// The panel covers the view: it closes when a person goes on to something else.
header.addEventListener("focusout", (event) => {
  const to = event.relatedTarget;
  if (to && !header.contains(to) && !dialog.contains(to)) setMenu(false);
});
document.addEventListener("pointerdown", (event) => { if (!header.contains(event.target) && !dialog.open) setMenu(false); });

document.body.replaceChildren(h("a.skip", { href: "#main", onclick: (e) => { e.preventDefault(); main.focus(); } }, t("skip")), header, main, dialog, news);
dialog.addEventListener("close", () => { if (document.activeElement === document.body) main.focus({ preventScroll: true }); });

// take takes a token from the address and removes it there.
function take() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (!found) return false;
  try {
    token.set(decodeURIComponent(found[1]));
  } catch {
    token.set(found[1]); // no link of ours; the server says that it does not know it
  }
  history.replaceState(null, "", `${location.pathname}#/doubts`);
  return true;
}

const nameOf = (me) => me.name === "loopback" ? t("who.loopback") : me.name;

async function identify() {
  try {
    await whoAmI();
  } catch {
    // the view says it
  }
  who.replaceChildren(...me ? [data(nameOf(me)), t("who", { roles: me.roles.map((r) => word("role", r)).join(t("comma")) })] : [t("who.none")]);
}

function drawViews(shown) {
  nav.replaceChildren(h("ul", Object.keys(views).filter((v) => here().includes(v) || v === shown)
    .map((v) => h("li", h("a", { href: `#/${v}`, "aria-current": v === shown && "page" }, t(`nav.${v}`), v === "doubts" && [" ", count])))));
}

// open shows the view that the address names.
function open() {
  const [path, text = ""] = location.hash.replace(/^#\//, "").split("?");
  const [name, ref] = path.split("/");
  const known = Object.hasOwn(views, name) || name === "record" ? name : "doubts";
  const view = document.createElement(`rs-${known}`);
  Object.assign(view, { query: Object.fromEntries(new URLSearchParams(text)), ref });
  const active = document.activeElement;
  const inside = [nav, main].some((e) => e.contains(active)) || active === document.body || menuIsOpen() && panel.contains(active);
  setMenu(false);
  drawViews(known);
  entitle(t(`nav.${known}`));
  main.setAttribute("aria-label", t(`nav.${known}`));
  main.replaceChildren(view);
  scrollTo(0, 0);
  if (inside) main.focus({ preventScroll: true });
}

async function start() {
  if (!take() && !location.hash) history.replaceState(null, "", `${location.pathname}#/doubts`);
  await identify();
  open();
  countDoubts();
}

function askToken() {
  const input = h("input", { type: "password", name: "token", autocomplete: "off", required: true, spellcheck: "false" });
  const form = h("form.stack", field(t("token"), input, t("token.hint")), h("div.bar", h("button.primary", { type: "submit" }, t("token.use")),
    token.get() && h("button", { type: "button", onclick: () => use("") }, t("token.forget"))));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    use(input.value.trim().replace(/^Bearer +/i, ""));
  });
  const roles = h("ul.roles", ["view", "reveal", "resolve"].map((r) => h("li", h("strong", me?.roles.includes(r) ? "✓ " : "– ", word("role", r)), " ", t(`role.${r}.what`), " ",
    me && !me.roles.includes(r) && h("span.hint", t("role.missing")))));
  show(t("token.title"), h("p", me ? t("token.you", { name: `\u2068${nameOf(me)}\u2069` }) : t("token.none")), roles,
    me && !me.audit && h("p.notice", t("me.no-audit")), form);
}

// use takes another token. A form that a person has begun to fill in stays.
async function use(text) {
  token.set(text);
  dialog.close();
  if (!main.firstElementChild?.begun()) return start();
  await identify();
  countDoubts();
}

function showKeys() {
  const keys = [["/", "key.search"], ["j k", "key.move"], ["Enter", "key.open"], ["Esc", "key.back"], ["e", "key.resolve"], ["r", "key.reload"], ["i", "token.title"],
    ...here().map((v) => [`g ${views[v]}`, `nav.${v}`]), ["?", "keys"]];
  show(t("keys"), h("dl.facts.keys", keys.map(([k, text]) => h("div", h("dt", k.split(" ").flatMap((one) => [h("kbd", one), " "])), h("dd", t(text))))));
}

function show(title, ...content) {
  dialog.replaceChildren(h("h2", { id: "dialog-title" }, title), ...content.flat().filter(Boolean),
    h("div.bar", h("button", { type: "button", onclick: () => dialog.close() }, t("close"))));
  if (!dialog.open) dialog.showModal();
}

// move puts the focus on the next or previous row.
function move(by) {
  const rows = [...main.querySelectorAll("[data-row]")];
  const at = rows.indexOf(document.activeElement);
  const to = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))];
  to?.focus();
  to?.scrollIntoView({ block: "nearest" });
}

let waitsForView = 0;

const actions = {
  "/": () => {
    if (menu.checkVisibility()) setMenu(true);
    quick.focus();
  },
  "?": showKeys,
  i: askToken,
  j: () => move(1),
  k: () => move(-1),
  r: reload,
  e: () => main.querySelector("#resolve :is(input, summary)")?.focus(),
  g: () => { waitsForView = Date.now(); },
};

// reload loads the view again. It asks first if a person has begun to fill in a form.
function reload() {
  const view = main.firstElementChild;
  if (view && (!view.begun() || confirm(t("reload.lose")))) view.load();
}

function escape(target) {
  if (menuIsOpen()) {
    setMenu(false);
    return menu.focus();
  }
  if (target !== document.body && target.matches("input, textarea, select")) {
    target.blur();
    main.focus({ preventScroll: true });
  } else if (location.hash.startsWith("#/record/")) history.back();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || dialog.open) return;
  const target = event.target;
  if (event.key === "Escape") return escape(target);
  const types = target.matches("textarea, select, input:not([type=radio], [type=checkbox])");
  if (types) return;
  const view = Date.now() - waitsForView < 1500 && Object.keys(views).find((v) => views[v] === event.key);
  waitsForView = 0;
  const act = view ? () => { location.hash = `#/${view}`; } : actions[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

addEventListener("hashchange", () => take() ? start() : location.hash.startsWith("#/") && open());
// The server was away when the page was opened, and answers now.
document.addEventListener("rs-doubts", async (event) => {
  if (me || !event.detail) return;
  await identify();
  drawViews(main.firstElementChild?.name ?? "record");
});
// The server does not know the caller any more, or it has lost a role.
document.addEventListener("rs-caller", async (event) => {
  if (event.detail === "unauthenticated") {
    if (!dialog.open) askToken();
  } else await identify();
});
start();
